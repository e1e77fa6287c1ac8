"""The allowed values of fields of searches and entries."""

from typing import Final, Literal, get_args

COMMAND_LINE = "command-line"
"""The commands of the user that runs the service, as callers and in the audit trail."""
TENANT_HEADER, LOOKS_ONLY_HEADER = "X-KB-Tenant", "X-KB-Looks-Only"
"""Headers that only the door of these commands reads: the tenant's slug, percent-encoded, and whether the request only
looks."""

MAX_LIMIT = 100
"""Hits that one search can return, whatever a tenant or a service allows."""

MOST_PENDING = 2_000
"""Entries without a vector that are checked to count how many pass a filter; more of them cost more time."""

Mode = Literal["hybrid", "semantic", "keyword"]
Leg = Literal["semantic", "keyword"]
Fusion = Literal["rrf", "score"]
WeightsOrigin = Literal["request", "settings", "feedback", "searches", "default"]
"""Where the weights of a search come from, in their order of precedence."""
Boost = Literal["type", "access", "verified", "recent"]
Audience = Literal["pm", "dev", "qa", "all"]
"""The people that an entry is for: the field `roles` of an entry, and `role` of a search."""
GroupBy = Literal["asset"]
Duplicates = Literal["fold", "show"]
SuspiciousContent = Literal["keep", "flag", "quarantine"]
"""What a tenant does with suspicious content: nothing, mark it, or mark it and hide it from searches."""
Flag = Literal["invisible_text", "zero_width", "secret", "instructions"]
"""What makes a content suspicious."""
FLAGS: Final[tuple[Flag, ...]] = get_args(Flag)
LANGUAGES: Final = (
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french",
    "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
    "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil",
    "turkish", "yiddish",
)  # fmt: skip
"""Valid values of `language`: the configurations of Postgres 16, as in the check on the entries table."""
Scope = Literal["global", "project"]
Relationship = Literal["parent", "sibling", "child", "source", "derived", "tag_overlap"]
Source = Literal["entry", "asset"]
ToolSet = Literal["core", "all", "assistants"]
"""Which tools a client of MCP is shown."""
TagsMatch = Literal["any", "all"]
Degradation = Literal[
    "embedding_unavailable",
    "embeddings_pending",
    "query_unknown",
    "quota_exhausted",
    "reranker_unavailable",
    "replica_stale",
    "ranking_truncated",
]
"""What keeps an answer from being complete: `metadata.degraded` of a search."""
EntrySort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "title", "-title"]
"""The orders of a list of entries; `-` is descending."""
AssetSort = Literal["created_at", "-created_at", "updated_at", "-updated_at", "name", "-name"]
SavedSearchSort = Literal["created_at", "-created_at", "name", "-name"]
TagSort = Literal["tag", "-tag", "count", "-count"]
WritableType = Literal["fact", "summary", "template", "decision", "lesson", "temp_note", "insight"]
EntryType = Literal[WritableType, "chunk"]
