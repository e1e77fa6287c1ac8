"""What a search or a write knows of its tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from app.db.queries.search.search import VectorSpace
from app.embeddings.provider import EmbeddingModel
from app.knowledge.tenants.limits import Limits
from app.knowledge.tenants.settings import TenantSettings
from app.knowledge.tenants.wide_callers import WideCallers


@dataclass(frozen=True, slots=True)
class TenantContext:
    """The facts about a tenant that a search or a write needs.

    Attributes:
        space: the model's id and dimensions, for SQL literals.
        passages: number of vectors stored for the model.
        indexed: whether the tenant's HNSW index contains all of them.
        limits: the limits in force.
        allowed: the platform's limits for the tenant, without the tenant's own settings.
        revoked_tokens: ids of tokens that are refused.
        tokens_today: embedding tokens used today (UTC) when this was read.
        restricted: whether it has or had entries or assets that not all its callers may read.
        open_entries: number of entries that all its callers may read.
        wide_callers: the principals of callers that were found to read more entries than are compared exactly.
    """

    tenant_id: UUID
    slug: str
    settings: TenantSettings
    model: EmbeddingModel
    space: VectorSpace
    passages: int
    indexed: bool
    limits: Limits = field(default_factory=Limits)
    allowed: Limits = field(default_factory=Limits)
    revoked_tokens: frozenset[str] = frozenset()
    tokens_today: int = 0
    restricted: bool = False
    open_entries: int = 0
    wide_callers: WideCallers = field(default_factory=WideCallers, compare=False)
