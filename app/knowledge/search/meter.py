"""Count how sure the semantic leg is of each tenant's searches, in batches and in the background."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from app.db.database import Database
from app.db.queries import tenants
from app.db.session import TenantSession
from app.embeddings.provider import EmbeddingModel
from app.knowledge.background import BackgroundWriter
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan

LINGER = 5.0
"""Seconds that counts wait for others of the tenant, so that a search costs no write of its own."""

MEMORY = 300
"""Searches that the mean remembers: their order then moves a weight by about 0.01."""

MOST_WAITING = 10_000
"""Searches that wait; further ones are not counted."""


class Counted(NamedTuple):
    """A search with a model, by its best hit."""

    model_id: int
    model: EmbeddingModel
    entry_id: UUID
    similarity: float


class SimilarityMeter:
    """Adds the cosine of each search's best hit to the mean of its tenant and model.

    Only a search whose best hit everyone in the tenant may read counts, so that no weight depends on another entry. The
    searches of the last seconds are lost when the process is killed, or the database refuses them.
    """

    def __init__(self, database: Database) -> None:
        self._waiting: dict[UUID, list[Counted]] = defaultdict(list)
        self._count = 0
        self._writer = BackgroundWriter(
            database, self._take, self._write, linger=LINGER, lost="searches were not counted", unit="searches"
        )
        self.flush, self.close = self._writer.flush, self._writer.close

    def count(self, plan: Plan, legs: Legs) -> None:
        """Count a search, if its best semantic hit is the best one that the model finds; returns at once."""
        if legs.semantic is None or not legs.semantic.hits or not _is_typical(plan) or self._count >= MOST_WAITING:
            return
        best, tenant = legs.semantic.hits[0], plan.tenant
        counted = Counted(tenant.space.model_id, tenant.model, best.entry_id, best.value)
        self._waiting[tenant.tenant_id].append(counted)
        self._count += 1
        self._writer.start()

    def _take(self) -> Mapping[UUID, list[Counted]]:
        taken, self._waiting, self._count = self._waiting, defaultdict(list), 0
        return taken

    @staticmethod
    async def _write(session: TenantSession, counted: list[Counted]) -> None:
        by_model: dict[tuple[int, EmbeddingModel], list[tuple[UUID, float]]] = defaultdict(list)
        for each in counted:
            by_model[each.model_id, each.model].append((each.entry_id, each.similarity))
        for (model_id, model), best in by_model.items():
            await tenants.add_similarities(session, model_id, model, best, MEMORY)


def _is_typical(plan: Plan) -> bool:
    """Whether the semantic leg compared a text with all that the caller may read now, as far as the model goes.

    Otherwise a filter, a threshold or a vector of the caller's own decides what the best hit is.
    """
    query, tenant = plan.query, plan.tenant
    return (
        query.query_embedding is None
        and query.as_of is None
        and plan.entry_filter.is_open
        and plan.threshold <= tenant.model.similarity_threshold
    )
