"""Fields of requests. Generated from the service's contract by `make clients`: change that, not this file."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict
from uuid import UUID

Id = UUID | str

Mode = Literal["hybrid", "semantic", "keyword"]
GroupBy = Literal["asset"]
EntrySort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "title", "-title"]
AssetSort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "name", "-name"]
SavedSearchSort = Literal["created_at", "-created_at", "name", "-name"]
TagSort = Literal["tag", "-tag", "count", "-count"]
EntryType = Literal["fact", "summary", "template", "decision", "lesson", "temp_note", "insight", "chunk"]
WritableType = Literal["fact", "summary", "template", "decision", "lesson", "temp_note", "insight"]
Role = Literal["pm", "dev", "qa", "all"]
Scope = Literal["global", "project"]
AssetStatus = Literal["pending", "processing", "indexed", "failed"]
ItemState = Literal["indexed", "pending", "failed", "refused", "missing"]
AssetsFate = Literal["keep", "delete"]


class Weights(TypedDict, total=False):
    """The weight of each leg; the weights add up to 1."""

    semantic: Required[float]
    keyword: Required[float]


class SearchOptions(TypedDict, total=False):
    """Options of a search."""

    mode: Mode | None
    """The legs to run: both (hybrid, the default), semantic only, or keyword only."""
    limit: int | None
    """Hits per page. Default: the tenant's, or the service's, which is 10; the maximum is 50 unless the operator
    has changed it. A page has fewer when the text of its hits reaches 2 MiB; `next_cursor` continues.
    """
    similarity_threshold: float | None
    """Minimum cosine of a semantic match. Default: the tenant's, or the model's."""
    weights: Weights | None
    """Default: the tenant's, else 0.5 and 0.5, or semantic 0.7 and keyword 0.3 with the fusion `rrf`."""
    role: Role | None
    """Only entries for this role or for all."""
    tags: Sequence[str] | None
    """One or more tags; omit it for no filter."""
    tags_match: Literal["any", "all"] | None
    """Whether an entry needs any (the default) or all of the tags."""
    entry_type: EntryType | Sequence[EntryType] | None
    """One or more types; omit it for no filter."""
    min_confidence: float | None
    scope: Scope | None
    source: Literal["entry", "asset"] | None
    """Only entries written by callers, or only chunks of assets."""
    asset_id: Sequence[Id] | None
    """One or more assets; omit it for no filter."""
    metadata: Mapping[str, Any] | None
    """Values that the entry's metadata must contain, at most 100 at all depths."""
    filter: Mapping[str, Any] | None
    """Ranges and logic on metadata and on fields of the entry: either `field` with one or more operators, all of
    which it has to fulfil, or exactly one of `and`, `or` and `not`. At most 50 operators, 100 values in
    lists, 10 levels and 64 KiB.
    """
    created_after: datetime | None
    """Only entries created at this time or later; with a time zone."""
    created_before: datetime | None
    """Only entries created before this time."""
    updated_after: datetime | None
    """Only entries whose last change was at this time or later; with a time zone."""
    updated_before: datetime | None
    """Only entries whose last change was before this time."""
    as_of: datetime | None
    """A past time, with a time zone: the search answers from what was valid then. Filters apply to the versions
    of that time; frequencies of words are today's. The tenant must keep versions (`keep_versions_days`). A
    time before the period that it keeps gets a 422 response, which names the earliest time. Not with
    `facets`.
    """
    include_superseded: bool | None
    """Whether replaced entries are found, too. Default: false."""
    boost: Sequence[Literal["type", "access", "verified", "recent"]] | None
    """Boosts that multiply the fused score. Default: none."""
    recent_half_life_days: float | None
    """With the boost `recent`: an entry that has just changed gets half of its score in addition, one that
    changed so many days ago a quarter. Default: the tenant's, or 90.
    """
    fusion: Literal["rrf", "score"] | None
    """How the legs are combined. Default: the tenant's, or score."""
    rrf_k: int | None
    """The constant of reciprocal rank fusion. Default: 60."""
    ef_search: int | None
    """How many candidates the vector index keeps. Default: 130 to 500, more in a larger tenant, and up to 1,000
    for a caller who may read a part of it.
    """
    query_embedding: Sequence[float] | None
    """A vector to use instead of the query's embedding."""
    explain: bool | None
    """Fill `debug_info`. With `cursor`, it has ranks and scores; terms, boosts and strategies are null."""
    diversity: float | None
    """Above 0, hits that resemble better ones move down (maximal marginal relevance). Default: 0."""
    rerank: bool | None
    """Whether the reranker compares the first candidates with the query and orders them; `score` stays the fused
    score. Default: true where the service has a reranker. `true` is refused where the tenant's setting is
    false; without a reranker it gets the fused order, and `reranker_unavailable` in `degraded`.
    """
    group_by: GroupBy | None
    """`asset`: a hit is the best passage of its asset, and `group` has further ones. `limit`, `total` and
    `cursor` count assets; an entry without an asset counts as one.
    """
    duplicates: Literal["fold", "show"] | None
    """`fold`: of entries that differ only in numbers and dates, one is a hit, and its `duplicates` counts the
    others: the best of those with the most numbers of the query. `show`: each is a hit. Default: fold.
    """
    facets: Sequence[str] | None
    """Fields whose values are counted over all matches: `tags`, `entry_type`, `roles`, `scope`, `source`,
    `asset_id`, and keys of metadata as `metadata.KEY`. Default: none.
    """
    cursor: str | None
    """The `next_cursor` of an earlier response. Send the same query, and the same filters or none."""


class SearchRequest(SearchOptions, total=False):
    """A search. Only `query` is required; unknown fields are refused."""

    query: Required[str]
    """The query, 1 to 10,000 characters after trimming. A word or phrase directly after a hyphen (`-legacy`) is
    excluded, and a phrase in quotes (`"route order"`) has to be in entries that are found by their words. A
    query with several lines or with options of a command (`--all`, `-n`) is searched for as it stands.
    """


class EntryFields(TypedDict, total=False):
    """Optional fields of an entry. Omitted fields are unchanged, or get the default of a new entry."""

    entry_type: WritableType | None
    """decision: a choice and its reasons; lesson: learnt from experience; insight and summary: derived from
    other entries (source_ids); template: text to fill in; temp_note: a temporary note. New entries: fact.
    """
    title: str | None
    """The subject in a few words; words in the title count more in searches. In a patch, null removes it."""
    tags: Sequence[str] | None
    """Subjects; entries that share two tags are related. New entries have none."""
    roles: Sequence[Role] | None
    """The audience; not a permission. New entries: all."""
    confidence: float | None
    """The author's confidence, 0 to 1. New entries: 1."""
    scope: Scope | None
    """Whether the entry applies everywhere or to one project only. New entries: global."""
    parent_id: Id | None
    """The entry of which this one is a part. In a patch, null removes the relation."""
    source_ids: Sequence[Id] | None
    """Entries from which this one was derived."""
    metadata: Mapping[str, Any] | None
    """Any other data, as a JSON object, which replaces the stored one; searches can filter by it. The service
    sets `flags`, which names what is suspicious in the entry.
    """
    language: str | None
    """A Postgres text search configuration, e.g. english or german. In a patch, null has it detected again, and
    so does a new text without a language.
    """
    expires_at: datetime | None
    """Date and time with a time zone; the entry is hidden from then on. Null in a patch: it does not expire."""
    superseded_by_id: Id | None
    """The entry that replaces this one; searches skip this one. Null in a patch: no entry replaces it."""
    is_verified: bool | None
    """Whether a person has verified the content. New entries: false."""
    external_id: str | None
    """Your own id; writing with the same id again updates this entry. In a patch, null removes the id."""
    readers: Sequence[str] | None
    """Who may read the entry: groups of the tokens and users, of which you are one. Null in a patch, and the
    default of a new entry: all readers in the tenant.
    """
    writers: Sequence[str] | None
    """Who of its readers with the role creator may change the entry; you are one of them. Null in a patch, and
    the default of a new entry: all of them.
    """


class EntryChanges(EntryFields, total=False):
    """Changes to an entry. Omitted fields are unchanged. Null clears a field that can be null; others ignore it."""

    content: str | None


class NewEntry(EntryFields, total=False):
    """An entry to store."""

    content: Required[str]
    """The text, self-contained; 1 to 100,000 characters."""


class AssetFields(TypedDict, total=False):
    """What callers set of an asset, and its chunks get."""

    tags: Sequence[str] | None
    """Replaces the tags of the asset and its chunks."""
    roles: Sequence[Role] | None
    """The audience of the asset and its chunks; not a permission."""
    metadata: Mapping[str, Any] | None
    """Replaces the metadata of the asset and its chunks; a chunk keeps its position."""
    readers: Sequence[str] | None
    """Who may read the asset and its chunks, from the answer on; you are one of them. Null: all readers of the
    tenant. An asset of a source has those of the source.
    """
    writers: Sequence[str] | None
    """Who of its readers with the role creator may change the asset; you are one of them. Null: all of them. An
    asset of a source has those of the source.
    """


class AssetChanges(AssetFields, total=False):
    """Changes to an asset. Omitted fields are unchanged."""

    title: str | None
    """The title of the asset and its chunks; null restores the title of the file."""


class ManifestOptions(TypedDict, total=False):
    """Options of a manifest."""

    origin: str | None
    """Describes where the files come from. User and password are removed from URLs. Default: the former
    description.
    """
    run: int | None
    """The run that the source had when the listing began, 0 for a new source. If another run has begun since,
    the answer is 409. Default: no check.
    """
    listed_at: datetime | None
    """When the listing began, with a time zone. Default, and latest: the arrival of the request."""
    confirm_deletions: bool | None
    """Whether more assets may be deleted than the share KB_SOURCE_MAX_DELETIONS. Default: false."""
    allow_empty: bool | None
    """Whether an empty manifest may delete all assets of the source. Default: false."""
    retry: bool | None
    """Whether unchanged files that were refused or failed become `missing`, to be uploaded again. Default:
    false.
    """
    readers: Sequence[str] | None
    """Who may see the source and read those of its assets whose item has no readers. Its writers are added.
    Null: all readers of the tenant. Default: as before; for a new source null.
    """
    writers: Sequence[str] | None
    """Who may send manifests and files, and change the assets, with the role creator; they see all items. Null:
    all creators that see the source. Default: as before; for a new source null.
    """


class ManifestItem(TypedDict, total=False):
    """A file of the origin. Equal digests mean equal bytes; `size` is in bytes, if it is known.

    `readers` are those that the origin has for it; None: those of the source.
    """

    external_id: Required[str]
    digest: Required[str]
    name: str | None
    size: int | None
    readers: Sequence[str] | None


class ListChange(TypedDict, total=False):
    """A change of a list: either `set`, or `add` and `remove`."""

    set: Sequence[str] | None
    """The new list; null: all."""
    add: Sequence[str] | None
    """Principals to add. A list that is null stays null."""
    remove: Sequence[str] | None
    """Principals to remove. An item without a list, or with no other principal, is refused."""


class AccessSelection(TypedDict, total=False):
    """Which items are changed: those that pass all conditions. At least one is required."""

    ids: Sequence[Id] | None
    """Ids of entries and assets."""
    tags: Sequence[str] | None
    """Tags, as in a search."""
    tags_match: Literal["any", "all"] | None
    """Whether one tag or all are needed. Default: any."""
    entry_type: EntryType | Sequence[EntryType] | None
    """Types, as in a search; the type of an asset is `chunk`."""
    filter: Mapping[str, Any] | None
    """Ranges and logic on metadata and on fields of the entry: either `field` with one or more operators, all of
    which it has to fulfil, or exactly one of `and`, `or` and `not`. At most 50 operators, 100 values in
    lists, 10 levels and 64 KiB. An asset passes if one of its chunks does.
    """
    principal: str | None
    """Items whose readers or writers name this principal."""


class NewModelChange(TypedDict, total=False):
    """The new embedding model. Omitted fields are taken from the only registered model that matches. The model
    in use means: rebuild its vectors.
    """

    provider: str | None
    model: str | None
    """A model that the operator has registered (`knowledge model add`) and configured."""
    dimensions: int | None
    rate: int | None
    """Entries to embed per minute; null means as many as the provider accepts."""
    switch_at_overlap: float | None
    """Switch automatically when the semantic legs of both models share at least this fraction of their first
    hits (0.8 unless set). Feedback decides instead where there is enough; too little evidence never switches.
    Null means wait for a switch on request.
    """


__all__ = [
    "AccessSelection",
    "AssetChanges",
    "AssetFields",
    "AssetSort",
    "AssetStatus",
    "AssetsFate",
    "EntryChanges",
    "EntryFields",
    "EntrySort",
    "EntryType",
    "GroupBy",
    "Id",
    "ItemState",
    "ListChange",
    "ManifestItem",
    "ManifestOptions",
    "Mode",
    "NewEntry",
    "NewModelChange",
    "Role",
    "SavedSearchSort",
    "Scope",
    "SearchOptions",
    "SearchRequest",
    "TagSort",
    "Weights",
    "WritableType",
]
