"""Answers of the service. Generated from the service's contract by `make clients`: change that, not this file."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from knowledge_client.answers import Answer


class EntryCore(Answer):
    """What every form of an entry has: the entry itself, a hit, a former version and a match of a subscription."""

    id: UUID
    entry_type: str
    title: str | None = None
    content: str
    tags: list[str]
    roles: list[str]
    confidence: float
    scope: str
    parent_id: UUID | None = None
    source_ids: list[UUID]
    superseded_by_id: UUID | None = None
    is_verified: bool
    asset_id: UUID | None = None
    external_id: str | None = None
    metadata: dict[str, Any]


class FoundEntry(EntryCore):
    """An entry as hits show it."""

    metadata: dict[str, Any]
    """A chunk also has char_start and char_end in the asset's text; headings, those above it from the topmost;
    page and total_pages if the asset has pages or slides; page_end if the chunk continues on a later page;
    ocr, if its text was recognised on an image and can contain errors; header_chars, the length of the header
    of its table, which its content begins with and which stands before char_start. If a chunk has several
    small pages or sections, char_start, char_end, headings, page and page_end are those of the one that
    matched.
    """
    asset_name: str | None = None
    chunk_index: int | None = None
    created_at: datetime
    updated_at: datetime


class Passage(Answer):
    """A further passage of a hit's asset."""

    id: UUID
    score: float
    chunk_index: int | None = None
    page: int | None = None
    """The page that it starts on, if the asset has pages."""
    title: str | None = None
    """The headings above it, as in the title of a hit."""
    snippet: str


class PassageGroup(Answer):
    """The passages of a hit's asset."""

    total: int
    """Ranked passages of the asset, with the hit itself."""
    further: list[Passage]
    """The best of the others, at most three."""


class Validity(Answer):
    """When the version of an entry was valid that a search with `as_of` found."""

    valid_from: datetime
    valid_until: datetime | None = None
    """The version ended just before; null if it is still valid."""


class HitOrigin(Answer):
    """The source of a hit's asset."""

    source: str
    agreed_at: datetime | None = None
    """When the source last agreed with its origin: the text was then the origin's. Null: not yet."""


class Hit(FoundEntry):
    """A ranked entry with its scores and the legs that found it."""

    score: float
    similarity: float | None = None
    """Cosine; null if the semantic leg did not find the entry."""
    keyword_score: float | None = None
    """BM25; null if the keyword leg did not find the entry."""
    sources: list[str]
    """The legs that found the entry."""
    snippet: str
    """Plain text, at most 240 characters, without Markdown and HTML; … marks a cut."""
    snippet_start: int
    """Where the text of the snippet starts in `content`, in characters."""
    snippet_end: int
    """Where it ends."""
    matched_terms: list[str]
    duplicates: int
    """Ranked entries that differ from it only in numbers and dates, and are not hits; `duplicates: show` in the
    request lists them.
    """
    group: PassageGroup | None = None
    """Only with `group_by`."""
    validity: Validity | None = None
    """Only with `as_of`."""
    origin: HitOrigin | None = None
    """Only for chunks of assets that belong to a source; with `as_of`, only while they are valid."""


class Relaxation(Answer):
    """Filters of a search without which entries match."""

    without: list[str]
    """Names of filters, as in the request."""
    matches: int
    """About how many entries match without them."""


class SearchMetadata(Answer):
    """Facts about the search; times in milliseconds."""

    search_id: UUID
    total: int
    """Hits in the ranked list, before the limit; near-duplicates count as one, and with `group_by`, groups."""
    phrases: list[str]
    """Quoted parts of the query, which each entry found by its words has."""
    excluded: list[str]
    """Words and phrases after a hyphen in the query, which no hit has."""
    strong_match: bool
    """Whether, judging by scores, a hit of the first page clearly answers the query."""
    fallback_mode: bool
    """Whether the embedding provider failed and the search used keywords only."""
    search_modes_used: list[str]
    """The legs that compared entries with the query."""
    degraded: list[str]
    """What keeps the answer from being complete; empty: nothing. `embedding_unavailable`: keyword search only.
    `quota_exhausted`: keyword search only, and no reranking. `embeddings_pending`: some entries have no
    vector yet and are found only by their words; see `pending`. `query_unknown`: the model knows no word of
    the query, as with an emoji, or in a script that it has not learned; keyword search only.
    `reranker_unavailable`: the hits are in the fused order. `ranking_truncated`: more entries may match than
    the ranked list has; on its first page and on its last.
    """
    exact: bool
    """Whether every entry that the filters admit was compared in each leg of `search_modes_used`. If not, there
    may be better hits.
    """
    pending: int
    """Entries that the filters admit and that have no vector yet; 0 in mode `keyword`. Where more than 2,000
    entries of the tenant wait, it may be too low, and is at least 1.
    """
    estimated_matches: int
    """About how many entries match: those that reach the similarity threshold, or those with a word of the
    query, whichever are more; never less than `total`. A lower bound where `exact` is false.
    """
    suggestions: list[str]
    """If nothing was found: queries to try. Each finds an entry that passes the filters."""
    relaxations: list[Relaxation]
    """If nothing was found because of the filters: what matches without each of them, or, if that is nothing,
    without all of them. Empty if the filters are not the cause.
    """
    weights: dict[str, float]
    """The weights of the legs in the fusion."""
    weights_from: str
    """Where they come from. `request`, `settings`: given there. `feedback`: found on judged queries. `searches`:
    they follow how sure the semantic leg is of the tenant's searches. `default`: the service's.
    """
    reranked: bool
    """Whether the reranker ordered the first candidates; scores then do not descend."""
    next_cursor: str | None = None
    query_time_ms: int
    """Time from the request's arrival to the answer."""
    waiting_ms: int
    """The part of `query_time_ms` in which the request waited for a turn: at the limits for simultaneous
    requests, for a database connection, or at the embedding model.
    """
    embedding_ms: int
    semantic_ms: int
    keyword_ms: int
    fusion_ms: int
    reranking_ms: int


class Adaptation(Answer):
    """What the tenant's searches have shown of its model, and the weights of score fusion that follow."""

    searches: int
    """Searches that were counted with the tenant's model."""
    mean_similarity: float | None = None
    """Mean similarity of their best semantic hits. Null: no search has been counted."""
    centre: float | None = None
    """The mean at which both legs weigh the same. Null: not measured for the model, and the weights stay equal."""
    weights: dict[str, float]


class ModelName(Answer):
    """An embedding model."""

    provider: str
    name: str
    dimensions: int


class SemanticExplanation(Answer):
    """How the semantic leg ran."""

    strategy: str
    candidates: int
    passages_in_tenant: int


class PinnedLeg(Answer):
    """A leg of an earlier search; its receipt records only that it ran."""

    strategy: None = None


class KeywordExplanation(Answer):
    """How the keyword leg ran; `full_match_score` is the BM25 score of an entry that matches the whole query."""

    strategy: str
    candidates: int
    matches: int
    phrases: list[str]
    corrections: dict[str, str]
    completions: dict[str, list[str]]
    compounds: dict[str, list[str]]
    synonyms: dict[str, list[str]]
    ignored: list[str]
    best_score: float
    full_match_score: float


class LegExplanations(Answer):
    """How each leg ran; None for a leg that did not run."""

    semantic: SemanticExplanation | PinnedLeg | None = None
    keyword: KeywordExplanation | PinnedLeg | None = None


class EmbeddingFailure(Answer):
    """The failure to embed the query, with the number of calls to the provider."""

    attempts: int


class RerankerExplanation(Answer):
    """How the reranker ran: its API and model, the candidates that it scored, and the calls without a usable
    answer.
    """

    name: str
    candidates: int
    failed_attempts: int | None = None


class HitExplanation(Answer):
    """The rank of a hit in each leg and by the reranker, and the parts of its score.

    `cosine` is also present for a keyword hit whose cosine score fusion computed; `estimated_cosine` replaces
    it for an entry that has no vector yet. On later pages of a search the fused terms and the boosts are
    None.
    """

    id: UUID
    rank: int
    semantic_rank: int | None = None
    keyword_rank: int | None = None
    similarity: float | None = None
    cosine: float | None = None
    estimated_cosine: float | None = None
    keyword_score: float | None = None
    semantic_term: float | None = None
    keyword_term: float | None = None
    boosts: dict[str, float] | None = None
    score: float
    rerank_rank: int | None = None
    rerank_score: float | None = None


class Explanation(Answer):
    """The effective settings, how each leg ran, and the ranks, raw scores, fused terms and boosts of each hit.

    A term is the leg's weight times 1/(rrf_k + rank); in score fusion, times 1 - cosine_stretch * (1 -
    cosine), at least 0, or times (keyword_score/keyword_scale)^1.5. A score is the sum of the terms times the
    boosts. The reranker and diversity only reorder hits. `reranker` is None if it was not asked, and
    `adaptation` if the weights do not come from searches.
    """

    mode: str
    fusion: str
    weights: dict[str, float]
    weights_from: str
    adaptation: Adaptation | None = None
    rrf_k: int
    keyword_scale: float | None = None
    cosine_stretch: float | None = None
    boost: list[str]
    diversity: float
    similarity_threshold: float
    model: ModelName
    legs: LegExplanations
    embedding_failure: EmbeddingFailure | None = None
    reranker: RerankerExplanation | None = None
    hits: list[HitExplanation]


class FacetValue(Answer):
    """A value of a field."""

    value: str | int | float | bool
    count: int
    """Matches that have it."""


class Facet(Answer):
    """The values of a field among all matches."""

    values: list[FacetValue]
    """The most frequent first, at most 50, and of at most 200 characters. An entry counts once for each of its
    values; an item of a list in metadata is a value.
    """
    other: int
    """The sum of the counts of all other values."""
    missing: int
    """Matches without a value."""
    exact: bool
    """Whether every match was counted; if not, the counts are lower bounds."""


class SearchResult(Answer):
    """Hits, best first."""

    results: list[Hit]
    metadata: SearchMetadata
    debug_info: Explanation | None = None
    """Only with `explain`."""
    facets: dict[str, Facet] | None = None
    """Only with `facets`, and not with `cursor`: how many matches have each value. A match passes the filters,
    and has a word of the query or reaches the similarity threshold; the pages show the best of them.
    """


class FieldProblem(Answer):
    """An invalid field."""

    field: str
    message: str


class Problem(Answer):
    """An error, as in RFC 9457."""

    type: str = "about:blank"
    """The kind of problem, by which programs can tell problems apart. It refers to a page of this service. More
    types may be added.
    """
    title: str
    status: int
    detail: str
    request_id: str | None = None
    errors: list[FieldProblem] | None = None
    """For 422: each invalid field."""
    limit: str | None = None
    """For 429: the name of the limit that was reached."""
    existing_id: UUID | None = None
    """For /problems/entry-exists and /problems/asset-exists: the entry or asset with the same identity."""
    deletions: int | None = None
    """For /problems/too-many-deletions: the number of assets that would be deleted."""
    assets: int | None = None
    """For /problems/too-many-deletions: the number of assets that the source has."""


class SearchProblem(Problem):
    """The problem of one search of a batch, with the values that would be headers."""

    retry_after: int | None = None
    """For 429 and 503: seconds to wait before trying again."""


class SearchOutcome(Answer):
    """The outcome of one search of a batch: its result, or its problem."""

    index: int
    """The position in the request, from 0."""
    status: int
    """The status of the same search as a single request."""
    result: SearchResult | None = None
    error: SearchProblem | None = None


class SearchBatchResponse(Answer):
    """One outcome for each search, in the order of the request."""

    results: list[SearchOutcome]


class Reason(Answer):
    """One reason why the entry is missing."""

    stage: str
    detail: str


class WhyNot(Answer):
    """Whether the entry is on the page, its rank among the candidates, and what excluded it."""

    entry_id: UUID
    in_results: bool
    rank: int | None = None
    reasons: list[Reason]
    query_time_ms: int
    """As in the metadata of a search."""
    waiting_ms: int
    """As in the metadata of a search."""


class WrittenEntry(EntryCore):
    """The fields of an entry that its writers set, and its place."""

    language: str
    expires_at: datetime | None = None
    readers: list[str] | None = None
    """Who may read the entry; null: all readers of the tenant."""
    writers: list[str] | None = None
    """Who of them may change the entry, with the role creator; null: all of them."""


class Entry(WrittenEntry):
    """A stored entry."""

    asset_name: str | None = None
    chunk_index: int | None = None
    quarantined: bool
    """Whether searches do not find the entry because of its flags, until an admin releases it."""
    embedding_status: str
    """`none`: there is no vector, since the model knows no word of the text. Only words find the entry."""
    version: int
    created_at: datetime
    updated_at: datetime


class RelatedEntry(Entry):
    """A related entry."""

    relationship: str
    overlap_count: int | None = None
    """Number of shared tags, for tag_overlap."""


class RelatedMetadata(Answer):
    """The number of related entries and the kinds of relationship among them."""

    total: int
    """All related entries; of each kind, at most 1,000 are counted."""
    relationship_types: list[str]
    """The kinds among the results."""


class RelatedResponse(Answer):
    """The parent, then siblings, children, sources, derived entries, and entries that share two or more tags."""

    results: list[RelatedEntry]
    metadata: RelatedMetadata


class BulkResult(Answer):
    """The outcome of one entry of a bulk write."""

    index: int
    id: UUID | None = None
    status: str
    error: str | None = None


class BulkResponse(Answer):
    """One result for each entry, in the order of the request."""

    results: list[BulkResult]


class Feedback(Answer):
    """The caller's feedback on a hit."""

    search_id: UUID
    entry_id: UUID
    relevant: bool
    at: datetime


class Difference(Answer):
    """A candidate whose place or score differs."""

    id: UUID
    then_rank: int | None = None
    now_rank: int | None = None
    then_score: float | None = None
    now_score: float | None = None
    reason: str
    """`deleted`: neither the entry nor the version that was ranked is there. `changed`: the entry has another
    version, and the one that was ranked is not kept. `not_found`: it is there, and the search does not find
    it. `not_ranked_then`: only the replay has it. `other_score`, `other_rank`: both have it.
    """


class RankedEntry(Answer):
    """A candidate of a search; ranks start at 1, and are null for a leg that did not find the entry."""

    id: UUID
    updated_at: datetime
    """Identifies the version of the entry that was ranked."""
    semantic_rank: int | None = None
    similarity: float | None = None
    keyword_rank: int | None = None
    keyword_score: float | None = None
    score: float
    rerank_rank: int | None = None
    """The rank by the reranker; null if it did not compare the entry."""
    rerank_score: float | None = None
    duplicates: int
    """Ranked near-duplicates of it, which are not listed."""
    passages: int | None = None
    """Only with `group_by`: the ranked passages of the asset, on the best of them; the best others follow, with
    0.
    """


class Replay(Answer):
    """Both rankings of a search, and their differences."""

    search_id: UUID
    at: datetime
    as_of: datetime | None = None
    """The time that the replay names. Null: no versions of it are kept, and it ran on what is valid now."""
    same: bool
    """Whether candidates, order and scores are equal."""
    causes: list[str]
    """What differs between then and now, and may explain differences."""
    settings: list[str]
    """Settings that have changed since, which the receipt does not have."""
    differences: list[Difference]
    then: list[RankedEntry]
    now: list[RankedEntry]


class Receipt(Answer):
    """What a search did: its settings, its model, and the ranks of every candidate."""

    mode: str
    exact: bool
    pending: int
    model: ModelName
    query: str | None = None
    """Only if the tenant keeps query texts (`keep_query_text`)."""
    rrf_k: int
    fusion: str
    options: dict[str, Any]
    """The other fields of the request, without those with their default; `query_embedding` is true if it had
    one.
    """
    ranking: list[RankedEntry]
    """Every candidate, best first."""
    version: str
    """The version of the service."""
    weights: dict[str, float]
    weights_from: str
    degraded: list[str]
    fallback: bool
    strong_match: bool
    estimated_matches: int
    search_modes_used: list[str]
    similarity_threshold: float


class SearchReceipt(Receipt):
    """The record of a search."""

    search_id: UUID
    subject: str
    """The `sub` of the caller's token."""
    at: datetime
    result_count: int
    """Hits on the first page."""
    query_time_ms: int


class EmptySearch(Answer):
    """A query that found nothing."""

    query: str
    searches: int
    last_at: datetime


class DislikedEntry(Answer):
    """An entry that callers marked as not relevant."""

    entry_id: UUID
    title: str | None = None
    entry_type: str
    not_relevant: int
    relevant: int
    last_at: datetime
    queries: list[str]


class FeedbackReport(Answer):
    """Searches without results and disliked hits of the last days."""

    days: int
    queries_kept: bool
    """Whether the tenant keeps query texts (`keep_query_text`); if not, the report has no queries."""
    relevant: int
    not_relevant: int
    searches_without_results: int
    empty_searches: list[EmptySearch]
    """Most frequent first, at most 50."""
    disliked: list[DislikedEntry]
    """Most disliked first, at most 50."""


class Subscription(Answer):
    """A subscription and the state of its deliveries."""

    saved_search_id: UUID
    url: str
    state: str
    """paused: the owner has not called for a while; the owner's next call resumes it. disabled: the endpoint
    failed for days or answered 410, or the owner stayed inactive; subscribe again.
    """
    confirmation: str
    """Whether the endpoint has answered a challenge. Nothing else is sent to it before. refused: it answered
    none of five, or answered 410; matches are not kept for it.
    """
    confirmed_at: datetime | None = None
    rights_until: datetime
    """Until then the owner counts as a reader; each call of the owner extends it."""
    waiting: int
    """Pending deliveries."""
    failures: int
    """Consecutive failed attempts."""
    failing_since: datetime | None = None
    last_error: str | None = None
    last_delivered_at: datetime | None = None
    created_at: datetime


class SubscriptionWithSecret(Subscription):
    """A new subscription with the secret that signs its deliveries; the secret is not shown again."""

    secret: str


class Source(Answer):
    """A source."""

    name: str
    origin: str | None = None
    run: int
    """The number of its last manifest."""
    items: int
    """Items of the last manifest; for callers who are not among its writers, those that they may read."""
    listed_at: datetime
    """When the listing of the origin for the last manifest began."""
    agreed_at: datetime | None = None
    """When the origin was listed with the content that the source's assets then got: the last time at which both
    agreed. Null: never.
    """
    agrees: bool
    """Whether all items of the last manifest are settled, and none of their assets was deleted since."""
    readers: list[str] | None = None
    """Who may see the source and read its assets; null: all readers of the tenant."""
    writers: list[str] | None = None
    """Who may send manifests and files; null: all creators that see the source."""
    created_at: datetime


class SourceStatus(Source):
    """A source with the number of its items in each state; they add up to `items`."""

    indexed: int
    """Items whose assets have their content and are indexed."""
    pending: int
    """Items whose assets are being ingested."""
    failed: int
    """Items whose files could not be ingested."""
    refused: int
    """Items whose files are too large or in an unsupported format."""
    missing: int
    """Items to upload, and items whose assets were deleted since the last manifest."""


class AcceptedManifest(SourceStatus):
    """A source after a manifest, and what the manifest changed."""

    added: int
    """Items with a new external_id."""
    changed: int
    """Items with another digest or name, or tried again."""
    moved: int
    """Items with another external_id and the same bytes, which keep their assets."""
    removed: int
    """Deleted assets."""


class RefusedItem(Answer):
    """An item that was not changed."""

    kind: str
    id: UUID
    reason: str


class ChangedAccess(Answer):
    """The items of this request, at most 200; another request with `next_cursor` continues."""

    matched: int
    changed: int
    """The others have the lists already, or were refused. A linked entry of a later page may count."""
    refused: list[RefusedItem]
    next_cursor: str | None = None


class PassingCaller(Answer):
    """A caller that may read the item, as its last token described it."""

    subject: str
    groups: list[str]
    roles: list[str]
    last_at: datetime
    writes: bool
    """Whether it may also change the item."""


class ItemReaders(Answer):
    """Who may read and change an item."""

    kind: str
    id: UUID | None = None
    name: str
    readers: list[str] | None = None
    """Null: all readers of the tenant."""
    writers: list[str] | None = None
    """Null: all of these with the role creator."""
    decided_by: str
    """What has the lists: a chunk has those of its asset, and an asset those of its source."""
    asset_id: UUID | None = None
    source: str | None = None
    callers: list[PassingCaller]
    """Callers of the last 90 days that may read it, the latest first, at most 100."""


class ItemCounts(Answer):
    """Numbers of entries that are not chunks, and of assets, counted up to 100,000."""

    entries: int
    assets: int


class ItemAccess(Answer):
    """An entry or asset that not all readers of the tenant may read."""

    kind: str
    id: UUID
    name: str
    readers: list[str] | None = None
    writers: list[str] | None = None
    asset_id: UUID | None = None
    source: str | None = None


class SubjectAccess(Answer):
    """What a person may read."""

    subject: str
    groups: list[str]
    groups_from: str
    """Where the groups are from: the request, or the person's last token of the last 90 days."""
    readable: ItemCounts
    """What the person may read."""
    total: ItemCounts
    """What there is."""
    items: list[ItemAccess]
    """What the person may read and not all readers of the tenant may, by id."""
    next_cursor: str | None = None


class Released(Answer):
    """The entries that searches can find again."""

    released: list[UUID]


class Estimates(Answer):
    """How `estimated_matches` compared with the ranked lists, in the last 1,000 searches of the last 24 hours."""

    searches: int
    truncated: int
    """Searches whose ranked list ended before all matching entries."""
    ranked_share: float
    """Mean share of `estimated_matches` that the ranked list had; 1 if every list was complete."""


class SearchHour(Answer):
    """The searches of one hour (UTC)."""

    hour: datetime
    searches: int
    fallbacks: int
    without_results: int
    p50_ms: int
    p95_ms: int


class ModelUse(ModelName):
    """An embedding model for which the tenant has, or is getting, vectors."""

    is_current: bool
    """Whether searches use it."""
    passages: int
    index_state: str
    waiting: int
    """Entries that still need vectors of this model."""
    refused: int
    """Entries that the provider refused five times; only keyword search finds them."""
    entries: int
    """Entries with vectors of this model."""


class Backlog(Answer):
    """Background work of one kind."""

    kind: str
    queued: int
    running: int
    oldest: datetime | None = None
    """When the oldest queued job became due."""


class LimitUse(Answer):
    """The usage of a limit, and the limit; null means unlimited."""

    used: int
    limit: int | None = None


class RecordUse(Answer):
    """Records of one kind, and their bound; null means unlimited."""

    rows: int
    bytes: int
    """Approximate, without indexes."""
    limit: int | None = None
    """Over it the oldest are removed; no record is refused except a saved search."""


class Statistics(Answer):
    """Statistics of the caller's tenant."""

    entries: int
    entries_by_type: dict[str, int]
    entries_by_language: dict[str, int]
    assets_by_status: dict[str, int]
    pending_embeddings: int
    flagged_entries: dict[str, int]
    """Entries with each flag of suspicious content; an entry can have several."""
    quarantined_entries: int
    jobs: int
    model: ModelName
    passages: int
    indexed: bool
    searches_24h: int
    searches_without_results_24h: int
    fallback_rate_24h: float
    estimates: Estimates
    searches_by_hour: list[SearchHour]
    """The last 24 hours. Hours without searches are omitted; the first and the last hour are partial."""
    models: list[ModelUse]
    """The model that searches use comes first."""
    backlog: list[Backlog]
    limits: dict[str, LimitUse]
    """Limits by name. Requests and searches are those of this instance; the other counts are exact."""
    records: dict[str, RecordUse]
    """`receipts`, `feedback`, `audit`, `saved_searches`, `deliveries` and `former_versions`."""


class DayUsage(Answer):
    """What the tenant used on a day (UTC)."""

    day: date
    searches: int
    writes: int
    """Entries and assets that were written or deleted."""
    embedded_tokens: int
    """Tokens that were embedded, also of queries, estimated as for the limit."""
    entries: int
    """Stored at the end of the day, or now; so are `files` and `bytes`."""
    files: int
    bytes: int
    """Of texts and files, as for the limit."""


class Usage(Answer):
    """The usage of a tenant by day, the oldest first."""

    items: list[DayUsage]


class ApiKey(Answer):
    """A key, without its secret."""

    id: UUID
    name: str
    role: str
    groups: list[str]
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    """When a call used the key; recorded once a minute. Null: never."""


class ApiKeyWithSecret(ApiKey):
    """A new key with its secret."""

    key: str
    """The bearer token. Only this answer has it: the service stores a hash."""


class ModelQuality(Answer):
    """The quality of both models on queries with feedback, as nDCG@10."""

    old: float
    new: float
    """A lower bound: hits without feedback count as wrong."""
    low: float
    """Lower end of the 95 % bootstrap interval of the mean difference, new - old."""
    high: float
    """Upper end of this interval."""


class ModelComparison(Answer):
    """A comparison of both models on a sample of the tenant's queries and of entry titles."""

    queries: int
    """Compared queries: those for which either model finds anything."""
    source: str | None = None
    """Their origin: the tenant's own queries, entry titles, or both; null if nothing was compared."""
    depth: int
    """Number of first hits compared: 10, or a tenth of the entries if fewer."""
    overlap: float | None = None
    """Mean fraction of these hits that both models find, in whole searches."""
    semantic_overlap: float | None = None
    """The same fraction for the semantic leg only."""
    same: int
    """Queries for which the semantic leg finds the same hits in the same order."""
    empty: int
    """Queries for which only the old model's semantic leg finds anything."""
    judgements: int
    """Judged entries of queries with feedback; a majority decides on each."""
    judged: int
    """Queries with a relevant entry, used to measure both models."""
    quality: ModelQuality | None = None
    """Of whole searches; null without feedback."""
    semantic_quality: ModelQuality | None = None
    """Of the semantic leg; null without feedback."""


class ModelDecision(Answer):
    """Whether the service switches by itself, and why."""

    switch: str
    """`undecided` until the models have been compared."""
    basis: str | None = None
    """What decided."""
    reason: str
    """The reason, with the figures that decided."""


class ModelChange(Answer):
    """A model change or rebuild, and its progress."""

    state: str
    old: ModelName
    new: ModelName
    rebuild: bool
    """Whether the model stays the same and its vectors are replaced; the last state is `switched`."""
    rate: int | None = None
    switch_at_overlap: float | None = None
    entries: int
    waiting: int
    """Entries that still need vectors of the model that is not in use."""
    refused: int
    """Entries that the provider of that model refuses; in a rebuild, they keep their vectors."""
    progress: float
    served: bool
    """Whether this service has a provider for that model; if not, the change waits."""
    failure: str | None = None
    """Why the change waits at the moment, for example a failed provider."""
    comparison: ModelComparison | None = None
    """Null until every entry has its vectors."""
    decision: ModelDecision
    started_at: datetime
    ready_at: datetime | None = None
    switched_at: datetime | None = None


class TunedWeights(Answer):
    """Weights that the service has found by feedback."""

    fusion: str
    """The fusion that they are for."""
    weights: dict[str, float]
    former: dict[str, float]
    """The weights that were in force before."""
    queries: int
    """Judged queries."""
    gain: float
    """Gain in nDCG@10 over the former weights."""
    low: float
    """Lower bound of the 99 % interval of the gain."""
    high: float


class TenantSettings(Answer):
    """The tenant's settings, including defaults."""

    weights: dict[str, float] | None = None
    type_weights: dict[str, float]
    similarity_threshold: float | None = None
    fusion: str
    verified_boost: float
    recent_half_life_days: float
    """Days after which an entry has lost half of what `boost: ["recent"]` adds, unless a search says otherwise."""
    synonyms: list[str]
    """Terms that a search for one of them also looks for: `laptop, notebook, portable computer` in all
    directions, `pc => laptop, notebook` only for the left side.
    """
    rerank: bool | None = None
    """false: no text of the tenant is sent to the reranker. Otherwise searches are reranked."""
    keep_query_text: bool
    default_limit: int | None = None
    max_limit: int | None = None
    purge_expired_after_days: int | None = None
    keep_versions_days: int
    """Days for which former versions of entries are kept."""
    suspicious_content: str
    """What happens to texts with invisible characters, secrets or instructions to language models: keep:
    nothing; flag: `metadata.flags` names what was found; quarantine: searches do not find them either, until
    an admin releases them.
    """
    limits: dict[str, int | None]
    auto_tune: bool
    """Whether `tuned` applies, and new weights may replace it."""
    tuned: TunedWeights | None = None
    """In force with `auto_tune`, without `weights`."""
    adaptive_weights: bool
    """Whether the weights of score fusion follow the tenant's searches, without `weights` and `tuned`."""
    adaptation: Adaptation | None = None
    """What the searches have shown; also where other weights are in force. It is not a setting."""


class TenantLimits(Answer):
    """The limits that the platform has set for a tenant."""

    id: UUID
    limits: dict[str, int | None]


class TagCount(Answer):
    """A tag of the tenant's entries."""

    tag: str
    count: int
    """Entries that a search with this tag alone can find."""


class Version(EntryCore):
    """An entry as it was from `valid_from` until just before `valid_until`."""

    version: int
    valid_from: datetime
    valid_until: datetime
    chunk_index: int | None = None
    language: str
    expires_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


class Asset(Answer):
    """An ingested file."""

    id: UUID
    source: str | None = None
    """The source that the asset belongs to."""
    external_id: str | None = None
    """Unique among the assets without a source, and within each source."""
    name: str
    media_type: str
    byte_size: int
    title: str | None = None
    """The title that a caller gave, else the one of the file."""
    total_pages: int | None = None
    pages_without_text: list[int]
    """Numbers of pages that show something and have no text, as scanned pages do, and of pages for which there
    was no time. With the extra `ocr`, text on images is recognised.
    """
    places_without_text: list[int]
    """Of an asset without pages: offsets in its text where it has a picture of text, or in an archive a page,
    that was not recognised.
    """
    encoding: str | None = None
    """The encoding of a text; null for other files."""
    encoding_guessed: bool | None = None
    """Whether nothing declared the encoding of the text: neither its first bytes, its `charset`, nor its own
    markup.
    """
    removed_controls: int | None = None
    """Control characters that were removed from a text."""
    tags: list[str]
    roles: list[str]
    metadata: dict[str, Any]
    readers: list[str] | None = None
    """Who may read the asset and its chunks; null: all readers of the tenant."""
    writers: list[str] | None = None
    """Who of them may change the asset, with the role creator; null: all of them."""
    status: str
    error: str | None = None
    progress: float
    generation: int
    """Counts the versions of the bytes."""
    chunks: int
    flags: dict[str, int]
    """Chunks with each flag of suspicious content."""
    quarantined_chunks: int
    """Chunks that searches do not find because of their flags, until an admin releases them."""
    duplicate_of: UUID | None = None
    """The oldest asset with the same bytes, if it is another one. Searches return a text that both have once,
    under the asset that was indexed first among those that the filters admit.
    """
    version: int
    """Counts all changes by callers; If-Match accepts it."""
    created_at: datetime
    updated_at: datetime


class SavedSearch(Answer):
    """A saved search of the caller."""

    id: UUID
    name: str
    request: dict[str, Any]
    subscribed: bool
    created_at: datetime


class SourceItem(Answer):
    """An item of the last manifest and its state."""

    external_id: str
    name: str
    digest: str
    asset_id: UUID | None = None
    state: str
    reason: str | None = None
    """Why it was refused or has failed."""


class ErasedPlace(Answer):
    """A table of the tenant."""

    place: str
    removed: int
    """Rows removed or, in receipts and the audit trail, changed."""
    found: int | None = None
    """Rows that the last look found, in a later transaction; null before the first look."""


class Dependent(Answer):
    """An item that depends on an erased one; it was not erased.

    `child`: by its `parent_id`. `superseded`: the erased entry superseded it, and searches find it again.
    `derived`: by its `source_ids`. `same_content`, `same_bytes`: a copy. `filter`: a saved search that names
    the asset. `changed`: the subject changed what another created. An `entry_version` is a former version of
    the entry `id`, and `asset_versions` are former versions of the chunks of the asset `id`: with a text that
    was erased, or valid after the subject had changed the item. The entry or asset may be deleted.
    """

    relation: str
    kind: str
    id: UUID
    version: int | None | None = None
    """Of an `entry_version`."""


class Remainder(Answer):
    """What the erasure leaves by design."""

    place: str
    reason: str


class Erasure(Answer):
    """The receipt of an erasure."""

    id: UUID
    kind: str
    asset_id: UUID | None = None
    entry_id: UUID | None = None
    pseudonym: str | None = None
    """What replaces the subject in the audit trail."""
    requested_by: str
    state: str
    """`erased` after a look that found nothing, `done` after a second one, about a minute later."""
    created_at: datetime
    erased_at: datetime | None = None
    checked_at: datetime | None = None
    """The time of the last look."""
    places: list[ErasedPlace]
    derived: list[Dependent]
    """Named for decision, at most 1,000."""
    derived_total: int
    remains: list[Remainder]


class AuditRecord(Answer):
    """An action: its actor, subjects, time and outcome."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: list[UUID]
    outcome: str
    detail: dict[str, Any]


class RevokedToken(Answer):
    """A token that is refused until it expires."""

    token_id: str
    revoked_at: datetime
    expires_at: datetime


class Tenant(Answer):
    """A tenant."""

    id: UUID
    slug: str
    name: str
    created_at: datetime


class EntryPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[Entry]
    next_cursor: str | None = None


class TagPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[TagCount]
    next_cursor: str | None = None


class VersionPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[Version]
    next_cursor: str | None = None


class AssetPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[Asset]
    next_cursor: str | None = None


class SavedSearchPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[SavedSearch]
    next_cursor: str | None = None


class SourcePage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[Source]
    next_cursor: str | None = None


class SourceItemPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[SourceItem]
    next_cursor: str | None = None


class ErasurePage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[Erasure]
    next_cursor: str | None = None


class AuditPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[AuditRecord]
    next_cursor: str | None = None


class RevokedTokenPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[RevokedToken]
    next_cursor: str | None = None


class ApiKeyPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[ApiKey]
    next_cursor: str | None = None


class TenantPage(Answer):
    """A page of a list; without `next_cursor` it is the last one."""

    items: list[Tenant]
    next_cursor: str | None = None


__all__ = [
    "AcceptedManifest",
    "Adaptation",
    "ApiKey",
    "ApiKeyPage",
    "ApiKeyWithSecret",
    "Asset",
    "AssetPage",
    "AuditPage",
    "AuditRecord",
    "Backlog",
    "BulkResponse",
    "BulkResult",
    "ChangedAccess",
    "DayUsage",
    "Dependent",
    "Difference",
    "DislikedEntry",
    "EmbeddingFailure",
    "EmptySearch",
    "Entry",
    "EntryPage",
    "ErasedPlace",
    "Erasure",
    "ErasurePage",
    "Estimates",
    "Explanation",
    "Facet",
    "FacetValue",
    "Feedback",
    "FeedbackReport",
    "FieldProblem",
    "Hit",
    "HitExplanation",
    "HitOrigin",
    "ItemAccess",
    "ItemCounts",
    "ItemReaders",
    "KeywordExplanation",
    "LegExplanations",
    "LimitUse",
    "ModelChange",
    "ModelComparison",
    "ModelDecision",
    "ModelName",
    "ModelQuality",
    "ModelUse",
    "Passage",
    "PassageGroup",
    "PassingCaller",
    "PinnedLeg",
    "Problem",
    "RankedEntry",
    "Reason",
    "RecordUse",
    "RefusedItem",
    "RelatedEntry",
    "RelatedMetadata",
    "RelatedResponse",
    "Relaxation",
    "Released",
    "Remainder",
    "Replay",
    "RerankerExplanation",
    "RevokedToken",
    "RevokedTokenPage",
    "SavedSearch",
    "SavedSearchPage",
    "SearchBatchResponse",
    "SearchHour",
    "SearchMetadata",
    "SearchOutcome",
    "SearchProblem",
    "SearchReceipt",
    "SearchResult",
    "SemanticExplanation",
    "Source",
    "SourceItem",
    "SourceItemPage",
    "SourcePage",
    "SourceStatus",
    "Statistics",
    "SubjectAccess",
    "Subscription",
    "SubscriptionWithSecret",
    "TagCount",
    "TagPage",
    "Tenant",
    "TenantLimits",
    "TenantPage",
    "TenantSettings",
    "TunedWeights",
    "Usage",
    "Validity",
    "Version",
    "VersionPage",
    "WhyNot",
]
