"""Saved searches, and subscriptions that send their new matches to a webhook."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from pydantic import AfterValidator, Field, JsonValue, StringConstraints, ValidatorFunctionWrapHandler, WrapValidator

from app.contract.fields import NOT_BLANK, Text
from app.contract.search import MOMENTS, SearchQuery, request_of
from app.contract.text import STORABLE, is_storable
from app.contract.validation import Described, InvalidParts, read_as, request
from app.errors import FieldError

MAX_SAVED_NAME = 200
MAX_URL = 2_000
MAX_SECRET = 120

EXAMPLE: JsonValue = {"query": "how do I order routes in vercel.json", "limit": 3}


def _check_lasting(query: SearchQuery) -> SearchQuery:
    errors = []
    if query.cursor is not None:
        errors.append(FieldError(".cursor", "cannot be saved: a cursor belongs to one search"))
    if query.as_of is not None:
        errors.append(FieldError(".as_of", "cannot be saved: former versions are kept for a time only"))
    if errors:
        raise InvalidParts(errors)
    return query


SavedQuery = Annotated[SearchQuery, AfterValidator(_check_lasting)]
"""A search that can be run again at any time."""


def _keep_given(given: Any, read: ValidatorFunctionWrapHandler) -> dict[str, Any]:
    """The fields of a request that the caller gave, as JSON; times as they were written.

    A later default of the others applies to it.
    """
    query = read(given)
    if not isinstance(given, Mapping):
        given = request_of(query)
    query = orjson.loads(orjson.dumps(query, option=orjson.OPT_UTC_Z))
    written = {name: time for name in MOMENTS if isinstance(time := given.get(name), str)}
    return {name: query[name] for name in given} | written


SavedRequest = Annotated[Mapping[str, Any], read_as(SavedQuery), WrapValidator(_keep_given)]


def _check_name(name: str) -> str:
    name = name.strip()
    if not name or not is_storable(name):
        raise ValueError(f"must have 1 to {MAX_SAVED_NAME} characters, {STORABLE}")
    return name


@request(schema={"examples": [{"name": "Route order", "request": EXAMPLE}]})
class NewSavedSearch:
    """A named search to save."""

    name: Annotated[
        Text,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_SAVED_NAME),
        NOT_BLANK,
        AfterValidator(_check_name),
    ]
    request: Annotated[SavedRequest, Field(description="Any search without a `cursor`.")]


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A saved search of the caller."""

    id: UUID
    name: Annotated[str, Field(examples=["Route order"])]
    request: Annotated[Mapping[str, Any], Field(examples=[EXAMPLE])]
    subscribed: bool
    created_at: datetime


@request(schema={"examples": [{"url": "https://example.com/hooks/knowledge"}]})
class NewSubscription:
    """The webhook for new and changed entries that match the saved search."""

    url: Annotated[Text, Field(min_length=1, max_length=MAX_URL)]
    """An http or https URL that is reachable from the internet, by default at port 80, 443 or 8080 to 8443; redirects
    are not followed."""
    secret: Annotated[Text, Field(max_length=MAX_SECRET)] | None = None
    """`whsec_` and 24 to 64 bytes in base64, as in Standard Webhooks; generated if omitted."""


@dataclass(frozen=True, slots=True)
class Subscription(Described):
    """A subscription and the state of its deliveries."""

    saved_search_id: UUID
    url: str
    state: Literal["active", "paused", "disabled"]
    """paused: the owner has not called for a while; the owner's next call resumes it. disabled: the endpoint failed for
    days or answered 410, or the owner stayed inactive; subscribe again."""
    confirmation: Literal["pending", "confirmed", "refused"]
    """Whether the endpoint has answered a challenge. Nothing else is sent to it before. refused: it answered none of
    five, or answered 410; matches are not kept for it."""
    confirmed_at: datetime | None
    rights_until: datetime
    """Until then the owner counts as a reader; each call of the owner extends it."""
    waiting: Annotated[int, Field(description="Pending deliveries.")]
    failures: Annotated[int, Field(description="Consecutive failed attempts.")]
    failing_since: datetime | None
    last_error: Annotated[str | None, Field(examples=["the endpoint answered 500"])]
    last_delivered_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SubscriptionWithSecret(Subscription):
    """A new subscription with the secret that signs its deliveries; the secret is not shown again."""

    secret: Annotated[str, Field(examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])]


@dataclass(frozen=True, slots=True)
class OwnedSubscription(Subscription):
    """A subscription as the tenant's admin sees it, with only the host of the URL."""

    owner: str
    name: str
