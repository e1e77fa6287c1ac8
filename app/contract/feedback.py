"""Feedback of callers on the hits of their searches, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from app.contract.fields import YesOrNo
from app.contract.validation import request
from app.contract.vocabulary import EntryType


@request(
    schema={
        "examples": [
            {
                "search_id": "0198c5a2-7d1e-7a60-8d0b-3d5f0a4c9e11",
                "entry_id": "0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33",
                "relevant": True,
            }
        ]
    }
)
class NewFeedback:
    """Whether a hit was useful to the caller."""

    search_id: Annotated[UUID, Field(description="The `metadata.search_id` of one of the caller's searches.")]
    entry_id: Annotated[UUID, Field(description="A hit of that search.")]
    relevant: YesOrNo


@dataclass(frozen=True, slots=True)
class Feedback:
    """The caller's feedback on a hit."""

    search_id: UUID
    entry_id: UUID
    relevant: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class EmptySearch:
    """A query that found nothing."""

    query: str
    searches: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class DislikedEntry:
    """An entry that callers marked as not relevant."""

    entry_id: UUID
    title: str | None
    entry_type: EntryType
    not_relevant: int
    relevant: int
    last_at: datetime
    queries: Sequence[str]


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """Searches without results and disliked hits of the last days."""

    days: int
    queries_kept: Annotated[
        bool,
        Field(
            description="Whether the tenant keeps query texts (`keep_query_text`); if not, the report has no queries."
        ),
    ]
    relevant: int
    not_relevant: int
    searches_without_results: int
    empty_searches: Annotated[Sequence[EmptySearch], Field(description="Most frequent first, at most 50.")]
    disliked: Annotated[Sequence[DislikedEntry], Field(description="Most disliked first, at most 50.")]
