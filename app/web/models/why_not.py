"""Request and response of the why-not endpoint."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from app.contract.entries import MAX_EXTERNAL_ID
from app.web.models.requests import RequestBody
from app.web.models.search import SearchRequest


class WhyNotRequest(RequestBody):
    """An entry, and the search whose results lack it."""

    entry_id: Annotated[str, Field(min_length=1, max_length=MAX_EXTERNAL_ID)] = Field(
        description="The id of the entry, or its external_id."
    )
    request: SearchRequest

    def entry(self) -> UUID | str:
        """The id, or else the external_id."""
        return read_entry(self.entry_id)


def read_entry(given: str) -> UUID | str:
    """The id of an entry, or else its external_id."""
    try:
        return UUID(given)
    except ValueError:
        return given


class ReasonModel(BaseModel):
    """One reason why the entry is missing."""

    stage: str = Field(examples=["semantic"])
    detail: str = Field(examples=["similarity 0.2104 is below the threshold 0.3000"])


class WhyNotResponse(BaseModel):
    """Whether the entry is on the page, its rank among the candidates, and what excluded it."""

    entry_id: UUID
    in_results: bool
    rank: int | None
    reasons: list[ReasonModel]
    query_time_ms: int = Field(description="As in the metadata of a search.")
    waiting_ms: int = Field(description="As in the metadata of a search.")
