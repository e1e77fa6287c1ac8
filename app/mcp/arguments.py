"""The arguments of the tools, described for language models."""

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema, model_validator

from app.contract.entries import MAX_EXTERNAL_ID, MAX_RELATED, MAX_TAG, EntryDraft
from app.contract.fields import Fraction, QueryText, VectorNumbers, YesOrNo, ZonedMoment
from app.contract.filters import FIELDS, FilterObject
from app.contract.models import NewModelChange
from app.contract.receipts import NewFeedback
from app.contract.saved_searches import MAX_SAVED_NAME
from app.contract.search import (
    DEFAULT_LIMIT,
    DEFAULT_MAX_LIMIT,
    MAX_TAGS,
    EntryTypes,
    Limit,
    SearchQuery,
    Tags,
    Weights,
    later_than,
)
from app.contract.validation import amend, nullable_fields, request
from app.contract.vocabulary import MAX_LIMIT, Audience, Duplicates, EntryType, TagSort
from app.knowledge.entries.reading import MAX_POSITION, READ_LENGTH
from app.knowledge.paging import MAX_PAGE
from app.web.rendering import PAGE_SIZE

MIN_TOKEN_BUDGET = 200
MAX_TOKEN_BUDGET = 1_000_000


TokenBudget = Annotated[int, Field(strict=True, ge=MIN_TOKEN_BUDGET, le=MAX_TOKEN_BUDGET)]


TAGS = WithJsonSchema({"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS})
ENTRY_TYPES = WithJsonSchema(TypeAdapter(EntryType | list[EntryType]).json_schema())
"""Shorter than HTTP's: a language model makes no empty lists and tags."""


Filter = Annotated[
    FilterObject | None,
    WithJsonSchema({"type": "object"}),
    Field(
        description='Conditions on metadata and fields, such as {"field": "metadata.year", "gte": 2020}, with eq, ne,'
        ' in, gt, gte, lt, lte or exists. Combine them: {"and": [...]}, {"or": [...]}, {"not": {...}}. Fields:'
        f" {', '.join(FIELDS)}."
    ),
]
CreatedAfter = Annotated[
    ZonedMoment | None, Field(description="Only entries created at this time or later; with a time zone.")
]
CreatedBefore = Annotated[
    ZonedMoment | None, later_than("created_after"), Field(description="Only entries created before this time.")
]
FoldOrShow = Annotated[
    Duplicates,
    Field(
        description="Entries that differ only in numbers and dates: one hit that counts the others (fold, the default),"
        " or all of them (show)."
    ),
]
Cursor = Annotated[
    Annotated[str, Field(max_length=1_000)] | None,
    Field(description="The `next_cursor` of the list before, for its next page."),
]


class Arguments(BaseModel):
    """Arguments of a tool; others are refused, and null is as good as the omission of one that is optional."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _omit_nulls(cls, given: Any) -> Any:
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {n: v for n, v in given.items() if v is not None or n in required} if isinstance(given, dict) else given


_QUERY = SearchQuery("query")


class SearchArguments(Arguments):
    """Arguments that describe a search, checked as the contract checks its fields."""

    OWN: ClassVar = frozenset({"token_budget", "entry_id"})
    """Arguments of the tool itself."""
    NAMES: ClassVar[Mapping[str, str]] = {}
    """Fields of a search by their names here, which a tool always gives."""

    def to_query(self) -> SearchQuery:
        """The search that these arguments describe."""
        given = (self.model_fields_set | self.NAMES.keys()) - self.OWN
        return amend(_QUERY, **{self.NAMES.get(name, name): getattr(self, name) for name in given})


class QueryArguments(SearchArguments):
    """A query in plain language, and its filters."""

    query: QueryText = Field(
        description="The question, or a few characteristic words; names, numbers and error messages exactly as"
        " written. 1 to 10,000 characters."
    )
    role: Audience | None = Field(None, description="Only entries for this role or for all. Omit it if unsure.")
    tags: Annotated[Tags, TAGS] | None = Field(
        None, description="Only entries with at least one of these tags, spelled exactly."
    )
    entry_type: Annotated[EntryTypes, ENTRY_TYPES] | None = Field(
        None,
        description="Only entries of this type, or of these types. A 'chunk' is a passage of an uploaded document;"
        " the other types are entries written by callers.",
    )
    limit: Limit = Field(
        None,
        json_schema_extra={"default": DEFAULT_LIMIT},
        description=f"Maximum number of hits, 1 to {DEFAULT_MAX_LIMIT}.",
    )
    min_confidence: Fraction = Field(0.0, description="Only entries with at least this confidence, 0 to 1.")
    filter: Filter = None
    created_after: CreatedAfter = None
    created_before: CreatedBefore = None
    include_superseded: YesOrNo = Field(
        False, description="Whether entries that another one has replaced are found, too."
    )
    duplicates: FoldOrShow = "fold"


class KbSearchArguments(QueryArguments):
    """A search in plain language."""

    as_of: ZonedMoment | None = Field(
        None,
        description="A past time, with a time zone: answer from what was valid then. Only where the tenant keeps former"
        " versions; the error names the earliest time.",
    )
    explain: YesOrNo = Field(
        False, description="Explain the rank of each hit in debug_info. Use it only to investigate a ranking."
    )
    token_budget: TokenBudget | None = Field(
        None,
        description="Maximum number of tokens of the text, estimated too high rather than too low. It has the best hit,"
        " cut if necessary, and the further hits that fit; the others are listed by id.",
    )


class WhyNotArguments(QueryArguments):
    """An entry, and the search whose results lack it."""

    entry_id: Annotated[str, Field(min_length=1, max_length=MAX_EXTERNAL_ID)] = Field(
        description="The id of the entry that was expected, or its external id."
    )


class SavedSearchArguments(Arguments):
    """The caller's saved searches, the one to run, or a new one."""

    saved_search_id: UUID | None = Field(
        None, description="The id of the saved search to run. Omit it to list the saved searches."
    )
    save_as: str | None = Field(
        None,
        description=f"The name of a search to save, 1 to {MAX_SAVED_NAME} characters. It replaces the caller's saved"
        " search of this name.",
    )
    request: dict[str, Any] | None = Field(
        None, description="With save_as, the search to save: `query`, and any filters and limit of kb_search."
    )
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_PAGE)] = Field(
        PAGE_SIZE, description=f"Maximum number of saved searches in the list, 1 to {MAX_PAGE}."
    )
    cursor: Cursor = None
    token_budget: TokenBudget | None = Field(
        None, description="Maximum number of tokens of the text of a search that is run, as for kb_search."
    )


@request
class FeedbackArguments(NewFeedback):
    """Whether a hit was useful."""

    relevant: Annotated[YesOrNo, Field(description="Whether the hit helped to answer the question.")]


class ConnectorSearchArguments(SearchArguments):
    """A query, as hosted assistants send it."""

    query: QueryText = Field(description="The question, or a few characteristic words, 1 to 10,000 characters.")


class RelatedArguments(Arguments):
    """An entry whose related entries are requested."""

    entry_id: UUID = Field(description="The id of an entry or chunk from a search.")
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_RELATED)] = Field(
        5, description="Maximum number of related entries, 1 to 20."
    )


class HybridSearchArguments(SearchArguments):
    """A search with control over both of its legs."""

    NAMES: ClassVar = {"query_text": "query", "top_k": "limit"}

    query_text: QueryText = Field(description="The query for the keyword search, 1 to 10,000 characters.")
    query_embedding: VectorNumbers | None = Field(
        None,
        description="A vector for the semantic search, with the dimensions of the knowledge base's model."
        " If omitted, the service embeds the query text.",
    )
    top_k: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] = Field(
        5, description=f"Maximum number of hits, 1 to {MAX_LIMIT}."
    )
    weights: Weights | None = Field(
        None,
        description="The weights of semantic and keyword search; they add up to 1. Increase keyword if exact words"
        " matter. Omit them for the knowledge base's own, which follow from its texts.",
    )

    filter: Filter = None
    created_after: CreatedAfter = None
    created_before: CreatedBefore = None
    duplicates: FoldOrShow = "fold"


MAX_HEADING = 500
"""Characters of a heading that is searched for."""

Position = Annotated[int, Field(strict=True, ge=0, le=MAX_POSITION)]


class GetArguments(Arguments):
    """The entry to read."""

    entry_id: UUID = Field(description="The id of an entry or chunk, for example from a search.")
    start: Position = Field(
        0,
        description=f"The first character to read, from 0; at most {READ_LENGTH:,} characters are read. Continue a"
        " long entry with `next_start`.",
    )


class DocumentArguments(Arguments):
    """The part of a document to read: a page, a section, or the text from a position on."""

    asset_id: UUID = Field(description="The `asset_id` of a passage that a search found.")
    page: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        None, description="The number of a page or slide, from 1, if the document has pages."
    )
    heading: Annotated[str, Field(min_length=1, max_length=MAX_HEADING)] | None = Field(
        None,
        description="A heading or a part of it, in any case: its section is read. If several headings match, the"
        " first is read, and `matches` lists them.",
    )
    start: Position | None = Field(
        None,
        description=f"The first character to read, from 0; at most {READ_LENGTH:,} characters are read. Continue with"
        " `next_start`, or start at a heading of `contents`.",
    )


class TagArguments(Arguments):
    """A part of the list of tags."""

    prefix: Annotated[str, Field(max_length=MAX_TAG)] = Field(
        "", description="Only tags that start with these characters, in this case."
    )
    sort: TagSort = Field(
        "-count", description="`-count` lists the most used tags first, `tag` lists them by their characters."
    )
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_PAGE)] = Field(
        PAGE_SIZE, description=f"Maximum number of tags, 1 to {MAX_PAGE}."
    )
    cursor: Cursor = None


class FetchArguments(Arguments):
    """The result to fetch, as hosted assistants name it."""

    id: UUID = Field(description="The id of a result of the tool `search`.")


MAX_VERSION = 2**63 - 1
"""The largest version that the database can store."""

Version = Annotated[int, Field(strict=True, ge=1, le=MAX_VERSION)]

VERSION_TEXT = (
    "The version of the entry that you have read. If the entry has changed since then, nothing is done."
    " Omit it to ignore other changes."
)


class NoArguments(Arguments):
    """No arguments."""


@request
class UpdateArguments(EntryDraft):
    """Changes to an entry. Omitted fields are unchanged. Null clears a field that can be null; others ignore it."""

    MEANINGFUL_NULLS: ClassVar = nullable_fields(EntryDraft)

    _: KW_ONLY
    entry_id: Annotated[UUID, Field(description="The id of the entry to change.")]
    version: Annotated[Version | None, Field(description=VERSION_TEXT)] = None


class DeleteArguments(Arguments):
    """The entry to delete."""

    entry_id: UUID = Field(description="The id of the entry to delete.")
    version: Version | None = Field(None, description=VERSION_TEXT)


@request
class RebuildArguments(NewModelChange):
    """What to do with the vectors of the knowledge base."""

    MEANINGFUL_NULLS: ClassVar = ("rate", "switch_at_overlap")

    action: Annotated[
        Literal["start", "status", "switch", "switch_back", "end"],
        Field(
            description="'start', the default, creates all vectors again. 'status' shows the progress. 'switch' makes"
            " searches use the new model, 'switch_back' the old one. 'end' keeps the model in use and removes the"
            " vectors of the other one."
        ),
    ] = "start"
