"""The shapes of the tools' structured output."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from app.mcp.answers import MAIN_FIELDS, MAIN_METADATA
from app.mcp.schemas import output_schema
from app.web.models.entries import EntryModel
from app.web.models.search import HitModel, SearchMetadataModel


class CitationModel(BaseModel):
    """Where a hit comes from."""

    entry_id: UUID
    asset_id: UUID | None
    asset_name: str | None
    page: int | None
    page_end: int | None
    char_start: int | None
    char_end: int | None
    text: str = Field(description="The same on one line, for an answer's references.")


class CitedHitModel(HitModel):
    """A hit with its source."""

    citation: CitationModel
    content_cut: bool = Field(description="Whether a token budget made the content shorter.")


class BudgetModel(BaseModel):
    """What a token budget did."""

    token_budget: int
    tokens: int = Field(description="Of the text, as estimated.")
    estimate: str
    hits_left_out: int


class SearchAnswerModel(BaseModel):
    """Hits, best first."""

    results: list[CitedHitModel]
    metadata: SearchMetadataModel
    debug_info: dict[str, Any] | None
    budget: BudgetModel | None


class AddedModel(BaseModel):
    """What became of an entry."""

    status: Literal["created", "existing"] = Field(
        description="existing: the knowledge base had it, and its fields were brought up to date."
    )
    entry: EntryModel


def search_output_schema() -> dict[str, Any]:
    """As `SearchAnswerModel`, of which an answer with a token budget has the main fields."""
    schema = output_schema(SearchAnswerModel)
    schema["properties"]["results"]["items"]["required"] = [*MAIN_FIELDS, "citation", "content_cut"]
    schema["properties"]["metadata"]["required"] = list(MAIN_METADATA)
    return schema
