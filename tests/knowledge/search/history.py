"""A random history of a tenant, and a model of what a search of it must answer."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.vocabulary import Fusion, Leg, Mode
from app.embeddings.provider import Vector
from tests.fixtures.providers.failing import FailingProvider

LEGS: tuple[Leg, ...] = ("semantic", "keyword")
MODES: tuple[Mode, ...] = ("keyword", "semantic", "hybrid")
FUSIONS: tuple[Fusion, ...] = ("rrf", "score")
WORDS = ("amber", "basalt", "copper", "dolomite", "emerald", "feldspar")
TAGS = ("north", "south", "east")
TYPES = ("fact", "lesson")
THRESHOLD = 0.6
"""No two of the vectors have a cosine near it: they are sums of one to three of four axes."""

FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"tags": ["north"]},
    {"tags": ["north", "south"], "tags_match": "all"},
    {"entry_type": ["lesson"]},
    {"min_confidence": 0.5},
    {"include_superseded": True},
    {"metadata": {"shelf": 1}},
    {"tags": ["nowhere"]},
)


@dataclass
class Known:
    """An entry as the test wrote it; `vector` is None while it is pending."""

    id: UUID
    words: set[str]
    future_vector: Vector
    fields: dict[str, Any]
    vector: Vector | None = None
    expired: bool = False
    superseded: bool = False
    successor: UUID | None = None

    def passes(self, filters: dict[str, Any]) -> bool:
        if self.expired or (self.superseded and not filters.get("include_superseded")):
            return False
        tags, wanted = set(self.fields["tags"]), set(filters.get("tags", ()))
        if wanted and not (wanted <= tags if filters.get("tags_match") == "all" else wanted & tags):
            return False
        if "entry_type" in filters and self.fields["entry_type"] not in filters["entry_type"]:
            return False
        if self.fields["confidence"] < filters.get("min_confidence", 0):
            return False
        return "metadata" not in filters or self.fields["metadata"] == filters["metadata"]


@dataclass
class History:
    """Writes, deletes, expires, supersedes and embeds entries at random, and checks searches."""

    services: Services
    tenant: Tenant
    provider: FailingProvider
    random: random.Random
    entries: dict[UUID, Known] = field(default_factory=dict)
    written: int = 0
    searched: int = 0
    as_of: datetime | None = None

    async def play(self, steps: int) -> None:
        actions = [self.write, self.write_many, self.rewrite, self.delete, self.expire, self.supersede]
        for _ in range(steps):
            await self.random.choice([*actions, self.embed, self.embed])()
            self.provider.down = self.random.random() < 0.3
            await self.search()
        self.provider.down = False
        await self.search()

    async def write(self) -> None:
        content, known = self._draft()
        entry, _ = await self.services.entries.create(self.tenant.id, EntryDraft(content=content, **known.fields))
        self._add(entry.id, known, embedded=entry.embedding_status == "ready")

    async def write_many(self) -> None:
        drafts = [self._draft() for _ in range(self.random.randint(2, 8))]
        results = await self.services.entries.create_many(
            self.tenant.id, [EntryDraft(content=content, **known.fields) for content, known in drafts]
        )
        for result, (_, known) in zip(results, drafts, strict=True):
            assert result.id is not None
            self._add(result.id, known, embedded=False)

    async def rewrite(self) -> None:
        if self.entries:
            content, known = self._draft()
            old = self._pick()
            old.words, old.future_vector = known.words, known.future_vector
            await self._change(old, EntryDraft(content=content))

    async def delete(self) -> None:
        if self.entries:
            gone = self._pick()
            await self.services.entries.delete(self.tenant.id, gone.id)
            del self.entries[gone.id]
            for known in self.entries.values():
                if known.successor == gone.id:
                    known.superseded, known.successor = False, None

    async def expire(self) -> None:
        if self.entries:
            known = self._pick()
            past = datetime.now(UTC) - timedelta(seconds=1)
            await self._change(known, EntryDraft(expires_at=past))
            known.expired = True

    async def supersede(self) -> None:
        if len(self.entries) > 1:
            old, new = self.random.sample(list(self.entries.values()), 2)
            # Entries cannot supersede each other, so the chain of successors must not lead back.
            following: Known | None = new
            while following is not None and following is not old:
                following = self.entries.get(following.successor) if following.successor else None
            if following is old:
                return
            await self._change(old, EntryDraft(superseded_by_id=new.id))
            old.superseded, old.successor = True, new.id

    async def embed(self) -> None:
        """Let some of the pending entries have their vectors."""
        pending = [known for known in self.entries.values() if known.vector is None]
        self.provider.down = False
        served = self.random.sample(pending, self.random.randint(0, len(pending)))
        await self.services.embedder.embed(self.tenant.id, [known.id for known in served])
        for known in served:
            known.vector = known.future_vector

    async def search(self) -> None:
        for mode in MODES:
            words = self.random.sample(WORDS, self.random.randint(1, 2))
            vector, filters = self._axes(), self.random.choice(FILTERS)
            self.searched += 1
            text = f"{' '.join(words)} question{self.searched}"
            self.provider.vectors[text] = vector
            given = self.random.random() < 0.3
            query = SearchQuery(
                query=text,
                mode=mode,
                fusion=self.random.choice(FUSIONS),
                limit=100,
                similarity_threshold=THRESHOLD,
                query_embedding=vector.tolist() if given else None,
                explain=True,
                duplicates="show",
                as_of=self.as_of,
                **filters,
            )
            result = await self.services.search.search(self.tenant.id, query)
            self._check(query, result, set(words), vector, filters, usable=given or not self.provider.down)

    def _check(
        self,
        query: SearchQuery,
        result: SearchResult,
        words: set[str],
        vector: Vector,
        filters: dict[str, Any],
        *,
        usable: bool,
    ) -> None:
        metadata = result.metadata
        visible = [known for known in self.entries.values() if known.passes(filters)]
        pending = [] if query.mode == "keyword" else [known for known in visible if known.vector is None]
        by_vector = {
            known.id
            for known in visible
            if query.mode != "keyword" and usable and known.vector is not None
            and float(known.vector @ vector) >= THRESHOLD
        }  # fmt: skip
        by_words = {known.id for known in visible if known.words & words}
        if query.mode == "semantic" and usable:
            by_words &= {known.id for known in pending}
        matching = by_vector | by_words
        failed = query.mode != "keyword" and not usable
        degraded = ["embedding_unavailable"] if failed else ["embeddings_pending"] if pending else []
        assert {hit.id for hit in result} == matching
        assert (metadata.total, metadata.estimated_matches) == (len(matching), len(matching))
        assert metadata.pending == len(pending)
        assert metadata.degraded == degraded
        assert metadata.exact == (failed or not pending)
        assert metadata.fallback_mode == failed
        compared = any(known.vector is not None for known in visible)
        semantic = query.mode != "keyword" and usable and (compared or not pending)
        keyword = query.mode != "semantic" or bool(pending) or not usable
        assert metadata.search_modes_used == ["semantic"] * semantic + ["keyword"] * keyword
        for hit in result:
            sources = ["semantic"] * (hit.id in by_vector) + ["keyword"] * (hit.id in by_words)
            assert hit.sources == sources
        self._check_order(result)

    def _check_order(self, result: SearchResult) -> None:
        """Equal scores are ordered by the newest change, in the whole and within each leg."""
        assert result.debug_info is not None
        hits = {hit.id: hit for hit in result}
        whole = [(-hit.score, -hit.updated_at.timestamp(), hit.id.bytes) for hit in result]
        if len(result.metadata.search_modes_used) > 1:
            assert whole == sorted(whole)
        for leg in LEGS:
            told = [h for h in result.debug_info.hits if h.rank_in(leg) is not None]
            told.sort(key=lambda h: h.rank_in(leg) or 0)
            places = [(-((h.similarity if leg == "semantic" else h.keyword_score) or 0), hits[h.id]) for h in told]
            keys = [(value, -hit.updated_at.timestamp(), hit.id.bytes) for value, hit in places]
            assert keys == sorted(keys)

    async def _change(self, known: Known, values: EntryDraft) -> None:
        # Any change of a pending entry is another attempt to embed it.
        entry = await self.services.entries.change(self.tenant.id, known.id, values)
        known.vector = known.future_vector if entry.embedding_status == "ready" else None

    def _draft(self) -> tuple[str, Known]:
        self.written += 1
        words = self.random.sample(WORDS, self.random.randint(1, 3))
        content = f"{' '.join(words)} note{self.written}"
        vector = self._axes()
        self.provider.vectors[content] = vector
        fields = {
            "tags": self.random.sample(TAGS, self.random.randint(0, 2)),
            "entry_type": self.random.choice(TYPES),
            "confidence": self.random.choice([0.2, 0.9]),
            "metadata": {"shelf": self.random.randint(1, 2)},
            "language": "english",
        }
        return content, Known(UUID(int=0), set(words), vector, fields)

    def _add(self, entry_id: UUID, known: Known, *, embedded: bool) -> None:
        known.id = entry_id
        known.vector = known.future_vector if embedded else None
        self.entries[entry_id] = known

    def _axes(self) -> Vector:
        vector = np.zeros(self.provider.model.dimensions, dtype=np.float32)
        vector[self.random.sample(range(4), self.random.randint(1, 3))] = 1
        unit: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit

    def _pick(self) -> Known:
        return self.random.choice(list(self.entries.values()))
