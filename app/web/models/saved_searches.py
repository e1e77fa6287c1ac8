"""Requests and responses of the endpoints for saved searches and subscriptions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from app.knowledge.subscriptions.saved_searches import MAX_NAME
from app.knowledge.subscriptions.webhooks import MAX_URL
from app.web.models.requests import NOT_BLANK, RequestBody
from app.web.models.search import SearchRequest

SEARCH: JsonDict = {"query": "how do I order routes in vercel.json", "limit": 3}


class NewSavedSearch(RequestBody):
    """A named search to save."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Route order", "request": SEARCH}]})

    name: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NAME), NOT_BLANK
    ]
    request: SearchRequest = Field(description="Any search without a `cursor`.")

    def given(self) -> dict[str, Any]:
        """The fields of the request that the caller gave, as JSON."""
        return self.request.model_dump(mode="json", exclude_unset=True)


class SavedSearchModel(BaseModel):
    """A saved search of the caller."""

    id: UUID
    name: str = Field(examples=["Route order"])
    request: dict[str, Any] = Field(examples=[SEARCH])
    subscribed: bool
    created_at: datetime


class SavedSearchList(BaseModel):
    """A page of the caller's saved searches."""

    items: list[SavedSearchModel]
    next_cursor: str | None


class NewSubscription(RequestBody):
    """The webhook for new and changed entries that match the saved search."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.com/hooks/knowledge"}]}
    )

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL)] = Field(
        description="An http or https URL that is reachable from the internet; redirects are not followed."
    )
    secret: Annotated[str, Field(max_length=120)] | None = Field(
        None,
        description="`whsec_` and 24 to 64 bytes in base64, as in Standard Webhooks; generated if omitted.",
    )


class SubscriptionModel(BaseModel):
    """A subscription and the state of its deliveries."""

    saved_search_id: UUID
    url: str
    state: Literal["active", "paused", "disabled"] = Field(
        description="paused: the owner has not called for a while; the owner's next call resumes it. disabled: the"
        " endpoint failed for days or answered 410, or the owner stayed inactive; subscribe again."
    )
    confirmation: Literal["pending", "confirmed", "refused"] = Field(
        description="Whether the endpoint has answered a challenge. Nothing else is sent to it before. refused: it"
        " answered none of five, or answered 410; matches are not kept for it."
    )
    confirmed_at: datetime | None
    rights_until: datetime = Field(
        description="Until then the owner counts as a reader; each call of the owner extends it."
    )
    waiting: int = Field(description="Pending deliveries.")
    failures: int = Field(description="Consecutive failed attempts.")
    failing_since: datetime | None
    last_error: str | None = Field(examples=["the endpoint answered 500"])
    last_delivered_at: datetime | None
    created_at: datetime


class NewSubscriptionModel(SubscriptionModel):
    """A new subscription with the secret that signs its deliveries; the secret is not shown again."""

    secret: str = Field(examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])


class OwnedSubscriptionModel(SubscriptionModel):
    """A subscription as the tenant's admin sees it, with only the host of the URL."""

    owner: str
    name: str


class SubscriptionList(BaseModel):
    """A page of the tenant's subscriptions, newest first."""

    items: list[OwnedSubscriptionModel]
    next_cursor: str | None
