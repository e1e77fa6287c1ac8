"""What each tool takes, described so that a language model can choose."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.knowledge.entries.entry import MAX_BULK
from app.knowledge.entries.related import MAX_RELATED
from app.knowledge.search.plan import DEFAULT_LIMIT, DEFAULT_MAX_LIMIT, SearchDefaults
from app.knowledge.search.query import MAX_LIMIT, SearchQuery
from app.knowledge.vocabulary import EntryType, Role
from app.web.models.entries import BulkRequest, NewEntry
from app.web.models.search import Number, QueryText, WeightsModel

MIN_TOKEN_BUDGET = 200
MAX_TOKEN_BUDGET = 1_000_000


class NoArguments(BaseModel):
    """Nothing."""

    model_config = ConfigDict(extra="forbid")


class KbSearchArguments(BaseModel):
    """A search in plain language."""

    model_config = ConfigDict(extra="forbid")

    query: QueryText = Field(
        description="What you want to know, as a question or a few telling words; names, numbers and error"
        " messages as they are written. 1 to 10,000 characters."
    )
    role: Role | None = Field(
        None, description="Only entries meant for this role, and those meant for all. Leave out if unsure."
    )
    tags: list[str] | None = Field(
        None, max_length=100, description="Only entries with at least one of these tags, spelt exactly."
    )
    entry_type: EntryType | list[EntryType] | None = Field(
        None,
        description="Only entries of this type, or of these. 'chunk' is a passage of an uploaded document;"
        " the others were written as entries.",
    )
    limit: Annotated[
        int | None, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": DEFAULT_MAX_LIMIT})
    ] = Field(
        None,
        strict=True,
        json_schema_extra={"default": DEFAULT_LIMIT},
        description=f"How many hits at most, 1 to {DEFAULT_MAX_LIMIT}.",
    )
    min_confidence: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0, description="Only entries whose authors were at least this sure, 0 to 1."
    )
    explain: Annotated[bool, Field(strict=True)] = Field(
        False, description="Also say, in debug_info, how each hit was ranked. Only for finding out why."
    )
    token_budget: Annotated[int, Field(strict=True, ge=MIN_TOKEN_BUDGET, le=MAX_TOKEN_BUDGET)] | None = Field(
        None,
        description="Most tokens that the text of the answer may take: the best hits that fit, the last one cut if"
        " need be, and a note of what was left out. Counted by a careful estimate that lies above most tokenizers."
        " The structured output then repeats the same hits with their main fields only.",
    )

    def to_query(self, defaults: SearchDefaults) -> SearchQuery:
        """The search that the service understands. Raises InvalidInput."""
        given = self.model_fields_set - {"token_budget"}
        return SearchQuery(**{name: getattr(self, name) for name in given}, max_limit=defaults.max_limit)


class RelatedArguments(BaseModel):
    """An entry whose surroundings are wanted."""

    model_config = ConfigDict(extra="forbid")

    entry_id: UUID = Field(description="The id of an entry or chunk, as a search gave it.")
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_RELATED)] = Field(
        5, description="How many related entries at most, 1 to 20."
    )


class HybridSearchArguments(BaseModel):
    """A search with control over both of its legs."""

    model_config = ConfigDict(extra="forbid")

    query_text: QueryText = Field(description="What is asked, 1 to 10,000 characters; searched by its words.")
    query_embedding: list[Number] | None = Field(
        None,
        min_length=1,
        max_length=4000,
        description="A vector to search by meaning with, of exactly the dimension of the knowledge base's model."
        " Leave it out, and the text is embedded for you.",
    )
    top_k: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] = Field(
        5, description=f"How many hits at most, 1 to {MAX_LIMIT}."
    )
    weights: WeightsModel | None = Field(
        None,
        json_schema_extra={"default": {"semantic": 0.7, "keyword": 0.3}},
        description="What meaning (semantic) and words (keyword) are worth; together 1. More for keyword when the"
        " exact words matter. Left out: as the knowledge base is set, 0.7 and 0.3 unless its admin chose others.",
    )

    def to_query(self) -> SearchQuery:
        """The search that the service understands. Raises InvalidInput."""
        return SearchQuery(
            query=self.query_text,
            query_embedding=self.query_embedding,
            limit=self.top_k,
            weights=self.weights.to_weights() if self.weights else None,
        )


class BulkArguments(BulkRequest):
    """1 to 1,000 entries."""

    # HTTP's description refers to a component; here the schema of an entry stands in its place.
    entries: Annotated[
        list[Any],
        WithJsonSchema(
            {"type": "array", "minItems": 1, "maxItems": MAX_BULK, "items": NewEntry.model_json_schema()}
        ),
    ] = Field(min_length=1, max_length=MAX_BULK)
