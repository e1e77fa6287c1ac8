"""Entries: the stored knowledge, as written, read and listed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar, get_args
from uuid import UUID

from pydantic import AfterValidator, Field, PlainValidator, Strict, WithJsonSchema, WrapValidator
from pydantic_core import PydanticKnownError

from app.contract.fields import MAX_PRINCIPALS, Principal, ZonedMoment
from app.contract.text import (
    MAX_JSON_BYTES,
    SEARCHABLE,
    STORABLE,
    STORABLE_JSON,
    is_searchable,
    is_storable,
    is_storable_json,
)
from app.contract.validation import UNSET, Described, Items, Unset, request, require, stored_fields
from app.contract.vocabulary import FLAGS, LANGUAGES, Audience, EntryType, Relationship, Scope, WritableType
from app.errors import FieldError

MAX_CONTENT = 100_000
MAX_TITLE = 1_000
MAX_TAGS = 50
MAX_TAG = 100
MAX_SOURCES = 100
MAX_EXTERNAL_ID = 512
MAX_BULK = 1_000
"""Most entries in one bulk write."""
MAX_RELATED = 20
"""Most related entries in an answer."""
MAX_COUNTED = 1_000
"""Most related entries of one kind that are counted."""
FLAGS_KEY = "flags"
"""The key of metadata for the flags of suspicious content, which only the service sets."""


@dataclass(frozen=True, slots=True)
class EntryCore(Described):
    """What every form of an entry has: the entry itself, a hit, a former version and a match of a subscription."""

    id: UUID
    entry_type: EntryType
    title: str | None
    content: str
    tags: Sequence[str]
    roles: Sequence[Audience]
    confidence: float
    scope: Scope
    parent_id: UUID | None
    source_ids: Sequence[UUID]
    superseded_by_id: UUID | None
    is_verified: bool
    asset_id: UUID | None
    external_id: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WrittenEntry(EntryCore):
    """The fields of an entry that its writers set, and its place."""

    language: str
    expires_at: datetime | None
    readers: Sequence[str] | None
    """Who may read the entry; null: all readers of the tenant."""
    writers: Sequence[str] | None
    """Who of them may change the entry, with the role creator; null: all of them."""


@dataclass(frozen=True, slots=True)
class Entry(WrittenEntry):
    """A stored entry."""

    asset_name: str | None
    chunk_index: int | None
    quarantined: bool
    """Whether searches do not find the entry because of its flags, until an admin releases it."""
    embedding_status: Literal["ready", "pending", "none"]
    """`none`: there is no vector, since the model knows no word of the text. Only words find the entry."""
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FormerVersion(EntryCore):
    """An entry as it was from `valid_from` until just before `valid_until`."""

    version: int
    valid_from: datetime
    valid_until: datetime
    chunk_index: int | None
    language: str
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TagCount:
    """A tag of the tenant's entries."""

    tag: Annotated[str, Field(examples=["backup"])]
    count: Annotated[int, Field(description="Entries that a search with this tag alone can find.", examples=[12])]


@dataclass(frozen=True, slots=True)
class RelatedEntry(Entry):
    """A related entry."""

    relationship: Relationship
    overlap_count: Annotated[int | None, Field(description="Number of shared tags, for tag_overlap.")]


@dataclass(frozen=True, slots=True)
class RelatedMetadata:
    """The number of related entries and the kinds of relationship among them."""

    total: Annotated[int, Field(description=f"All related entries; of each kind, at most {MAX_COUNTED:,} are counted.")]
    relationship_types: Annotated[Sequence[Relationship], Field(description="The kinds among the results.")]


@dataclass(frozen=True, slots=True)
class RelatedResponse:
    """The parent, then siblings, children, sources, derived entries, and entries that share two or more tags."""

    results: Sequence[RelatedEntry]
    metadata: RelatedMetadata


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The outcome of one entry of a bulk write."""

    index: int
    id: UUID | None
    status: Literal["created", "updated", "unchanged", "failed"]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BulkResponse:
    """One result for each entry, in the order of the request."""

    results: Sequence[BulkResult]


T = TypeVar("T")


def _drop_repeated(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def _is_indexable(text: str) -> bool:
    return bool(text.strip()) and is_searchable(text)


def _is_named(text: str) -> bool:
    return bool(text.strip()) and is_storable(text)


def _read_metadata(given: object) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise PydanticKnownError("dict_type")
    flags = given.get(FLAGS_KEY, [])
    if not is_storable_json(given) or not isinstance(flags, list) or any(f not in FLAGS for f in flags):
        raise ValueError(
            f"must be a JSON object of at most {MAX_JSON_BYTES} bytes, {STORABLE_JSON}; {FLAGS_KEY}, which the service"
            f" sets, can only be a list of any of {', '.join(FLAGS)}"
        )
    return dict(given)


Content = Annotated[
    str,
    Field(strict=True, min_length=1, max_length=MAX_CONTENT),
    require(_is_indexable, f"must be text of 1 to {MAX_CONTENT} characters, {SEARCHABLE}"),
]
Title = Annotated[
    str,
    Field(strict=True, min_length=1, max_length=MAX_TITLE),
    require(_is_indexable, f"must be text of 1 to {MAX_TITLE} characters, {SEARCHABLE}"),
]
Tags = Annotated[
    Items[Annotated[str, Field(strict=True, min_length=1, max_length=MAX_TAG)]],
    Field(max_length=MAX_TAGS),
    require(
        lambda tags: all(map(_is_named, tags)),
        f"must be a list of at most {MAX_TAGS} tags of 1 to {MAX_TAG} characters, {STORABLE}",
    ),
    AfterValidator(_drop_repeated),
]
Roles = Annotated[
    Items[Audience], Field(min_length=1, max_length=len(get_args(Audience))), AfterValidator(_drop_repeated)
]
Metadata = Annotated[Mapping[str, Any], PlainValidator(_read_metadata, json_schema_input_type=dict[str, Any])]
Language = Annotated[
    str,
    Strict(),
    require(lambda name: name in LANGUAGES, f"must be one of {', '.join(LANGUAGES)}"),
    WithJsonSchema({"type": "string", "enum": sorted(LANGUAGES)}),
]
ExternalId = Annotated[
    str,
    Field(strict=True, min_length=1, max_length=MAX_EXTERNAL_ID),
    require(_is_named, f"must be text of 1 to {MAX_EXTERNAL_ID} characters, {STORABLE}"),
]
Principals = Annotated[Items[Principal], Field(min_length=1, max_length=MAX_PRINCIPALS), AfterValidator(tuple)]


@request(schema={"examples": [{"tags": ["vercel"]}]})
class EntryDraft:
    """Changes to an entry. Omitted fields are unchanged. Null clears a field that can be null; others ignore it."""

    # An unset field of a new entry gets its value of DEFAULTS.

    _: KW_ONLY
    content: Content | Unset = UNSET
    entry_type: WritableType | Unset = UNSET
    """decision: a choice and its reasons; lesson: learnt from experience; insight and summary: derived from other
    entries (source_ids); template: text to fill in; temp_note: a temporary note. New entries: fact."""
    title: Title | Unset | None = UNSET
    """The subject in a few words; words in the title count more in searches. In a patch, null removes it."""
    tags: Tags | Unset = UNSET
    """Subjects; entries that share two tags are related. New entries have none."""
    roles: Annotated[Roles | Unset, Field(description="The audience; not a permission. New entries: all.")] = UNSET
    confidence: Annotated[float | Unset, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] = UNSET
    """The author's confidence, 0 to 1. New entries: 1."""
    scope: Scope | Unset = UNSET
    """Whether the entry applies everywhere or to one project only. New entries: global."""
    parent_id: UUID | Unset | None = UNSET
    """The entry of which this one is a part. In a patch, null removes the relation."""
    source_ids: Annotated[Items[UUID] | Unset, Field(max_length=MAX_SOURCES), AfterValidator(_drop_repeated)] = UNSET
    """Entries from which this one was derived."""
    metadata: Metadata | Unset = UNSET
    """Any other data, as a JSON object, which replaces the stored one; searches can filter by it. The service sets
    `flags`, which names what is suspicious in the entry."""
    language: Language | Unset | None = UNSET
    """A Postgres text search configuration, e.g. english or german. In a patch, null has it detected again, and so does
    a new text without a language."""
    expires_at: ZonedMoment | Unset | None = UNSET
    """Date and time with a time zone; the entry is hidden from then on. Null in a patch: it does not expire."""
    superseded_by_id: UUID | Unset | None = UNSET
    """The entry that replaces this one; searches skip this one. Null in a patch: no entry replaces it."""
    is_verified: Annotated[bool | Unset, Field(strict=True)] = UNSET
    """Whether a person has verified the content. New entries: false."""
    external_id: ExternalId | Unset | None = UNSET
    """Your own id; writing with the same id again updates this entry. In a patch, null removes the id."""
    readers: Annotated[Principals | Unset | None, Field(examples=[["group:finance", "user:jane"]])] = UNSET
    """Who may read the entry: groups of the tokens and users, of which you are one. Null in a patch, and the default
    of a new entry: all readers in the tenant."""
    writers: Annotated[Principals | Unset | None, Field(examples=[["group:payroll"]])] = UNSET
    """Who of its readers with the role creator may change the entry; you are one of them. Null in a patch, and
    the default of a new entry: all of them."""

    def given(self) -> dict[str, Any]:
        """The fields that are set, with lists as rows have them."""
        return stored_fields(self, FIELDS)

    @property
    def restricts(self) -> bool:
        """Whether it changes who may read or change the entry."""
        return self.readers is not UNSET or self.writers is not UNSET

    def references(self) -> list[tuple[str, UUID]]:
        """The ids of other entries that the draft contains, each with its field."""
        single = (("parent_id", self.parent_id), ("superseded_by_id", self.superseded_by_id))
        sources = () if isinstance(self.source_ids, Unset) else self.source_ids
        return [(n, i) for n, i in single if isinstance(i, UUID)] + [("source_ids", i) for i in sources]

    def self_reference(self, entry_id: UUID) -> FieldError | None:
        """Return the error if the draft, written to `entry_id`, would refer to itself."""
        for field, reference in self.references():
            if reference == entry_id:
                return FieldError(field, "must be another entry")
        return None


FIELDS: Final = tuple(field.name for field in fields(EntryDraft))

DEFAULTS: Final = EntryDraft(
    entry_type="fact",
    title=None,
    tags=(),
    roles=("all",),
    confidence=1.0,
    scope="global",
    parent_id=None,
    source_ids=(),
    metadata={},
    language=None,
    expires_at=None,
    superseded_by_id=None,
    is_verified=False,
    external_id=None,
    readers=None,
    writers=None,
)
"""The defaults of a new entry's fields; its content has no default, and its language is detected."""


@request(
    schema={
        "examples": [
            {
                "content": "Routes in vercel.json are matched from top to bottom; the catch-all comes last.",
                "title": "Route order",
                "tags": ["vercel", "routing"],
                "entry_type": "lesson",
            }
        ]
    }
)
class NewEntry(EntryDraft):
    """An entry to store."""

    content: Annotated[Content, Field(description=f"The text, self-contained; 1 to {MAX_CONTENT:,} characters.")]

    def __post_init__(self) -> None:
        # A patch clears fields by null; here it is an omission.
        for name in FIELDS:
            if getattr(self, name) is None:
                object.__setattr__(self, name, UNSET)


def _keep(given: T, _validate: object) -> T:
    return given


@request
class BulkRequest:
    """1 to 1,000 entries, each with its own outcome."""

    entries: Annotated[
        Items[Annotated[Any, WrapValidator(_keep, json_schema_input_type=NewEntry)]],
        Field(min_length=1, max_length=MAX_BULK),
        AfterValidator(tuple),
    ]
