"""Requests and responses of the feedback endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.contract.vocabulary import EntryType
from app.web.models.requests import RequestBody

IDS = {
    "search_id": "0198c5a2-7d1e-7a60-8d0b-3d5f0a4c9e11",
    "entry_id": "0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33",
}


class NewFeedback(RequestBody):
    """Whether a hit was useful to the caller."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**IDS, "relevant": True}]})

    search_id: UUID = Field(description="The `metadata.search_id` of one of the caller's searches.")
    entry_id: UUID = Field(description="A hit of that search.")
    relevant: Annotated[bool, Field(strict=True)]


class FeedbackModel(BaseModel):
    """The caller's feedback on a hit."""

    search_id: UUID
    entry_id: UUID
    relevant: bool
    at: datetime


class EmptySearchModel(BaseModel):
    """A query that found nothing."""

    query: str
    searches: int
    last_at: datetime


class DislikedEntryModel(BaseModel):
    """An entry that callers marked as not relevant."""

    entry_id: UUID
    title: str | None
    entry_type: EntryType
    not_relevant: int
    relevant: int
    last_at: datetime
    queries: list[str]


class FeedbackReportModel(BaseModel):
    """Searches without results and disliked hits of the last days."""

    days: int
    queries_kept: bool = Field(
        description="Whether the tenant keeps query texts (`keep_query_text`); if not, the report has no queries."
    )
    relevant: int
    not_relevant: int
    searches_without_results: int
    empty_searches: list[EmptySearchModel] = Field(description="Most frequent first, at most 50.")
    disliked: list[DislikedEntryModel] = Field(description="Most disliked first, at most 50.")
