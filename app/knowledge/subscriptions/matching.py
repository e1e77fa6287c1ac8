"""Match new and changed entries against saved searches that have subscriptions."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import orjson

from app.contract.entries import EntryCore
from app.db.database import Database
from app.db.queries import deliveries as outbox
from app.db.queries import subscriptions as db
from app.db.queries.deliveries import NewDelivery
from app.db.queries.search import Sought
from app.db.session import TenantSession
from app.embeddings.provider import EmbeddingProvider, Vector, make_unit_vector
from app.errors import EmbeddingUnavailable, InvalidInput
from app.knowledge.queue import JobQueue
from app.knowledge.search.legs.findings import split_query
from app.knowledge.search.legs.keyword import apply_operators, find_alternatives
from app.knowledge.search.plan import Plan, SearchDefaults, make_plan
from app.knowledge.search.query import is_identifier
from app.knowledge.subscriptions.service import read_request
from app.knowledge.tenants.directory import TenantContext, TenantDirectory, find_provider
from app.knowledge.tenants.quotas import tokens_left

log = logging.getLogger("app.knowledge.subscriptions.matching")

BATCH = 500
MAX_WAITING = 100_000
"""Most pending messages of one subscription; further ones are discarded."""
AGAIN_SECONDS, LATER_SECONDS, LONGEST_SECONDS = 1.0, 15.0, 60.0

MATCHED_FIELDS = (
    "entry_type", "title", "content", "tags", "roles", "confidence", "scope", "is_verified",
)  # fmt: skip
"""Fields whose change makes a match a new one for subscribers."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A saved search to match entries against, for an owner with these principals."""

    id: UUID
    request: Mapping[str, Any]
    plan: Plan
    principals: Sequence[str]

    @property
    def by_meaning(self) -> bool:
        """Whether the search uses vectors."""
        return self.plan.query.mode != "keyword"


@dataclass(eq=False)
class ChangeMatcher:
    """Queues a delivery for each new or changed entry that a subscribed search finds.

    A search matches an entry that it would find if there were no other entries: the entry passes the filters, and
    either shares a word with the query or reaches the similarity threshold, depending on the mode. An identifier must
    match as a whole. Compounds, their parts and incomplete last words count as in a search. Misspelt words are not
    corrected.
    """

    database: Database
    providers: Mapping[int, EmbeddingProvider]
    tenants: TenantDirectory
    jobs: JobQueue
    defaults: SearchDefaults

    async def match(self, tenant_id: UUID) -> float | None:
        """Match a batch of changes; return the seconds until the next batch, or None when no change is left.

        For searches with a semantic leg, an entry is matched once it has its vector. While the provider is unavailable
        or the tenant's tokens of the day are used up, it is matched by its words, and by its vector later. Raises
        TenantNotFound and DatabaseUnavailable.
        """
        tenant = await self.tenants.context(tenant_id)
        async with self.database.tenant_session(tenant_id) as session:
            await db.forget_changes(session)
            standing = [s for active in await db.list_active(session) if (s := self._read(tenant, active))]
            tokens = await tokens_left(session, tenant)
            # Without tokens, new entries get no vectors today; entries that have vectors are matched first.
            waits = tokens is not None and tokens <= 0 and not await db.list_changes(session, "ready", 1)
        vectors = None if waits else await self._embed(tenant, standing)
        kind: db.ChangeKind = "words" if vectors is None else "ready"
        if not any(s.by_meaning for s in standing):
            kind = "all"
        async with self.database.tenant_session(tenant_id) as session:
            held = await db.hold_requests(session, [s.id for s in standing])
            standing = [s for s in standing if held.get(s.id) == s.request]
            changes = await db.list_changes(session, kind, BATCH)
            found: dict[UUID, NewDelivery] = {}
            for search in standing:
                own: Sequence[Vector | None] = (vectors or {}).get(search.id) or [None]
                async with session.acting_as(search.principals):
                    rows = [
                        row
                        for vector in own
                        for row in await self._find(session, tenant, search, [c.entry_id for c in changes], vector)
                    ]
                # The nearest part of a query is the last for an entry, and stays.
                rows.sort(key=lambda row: row.similarity or 0.0)
                found.update((d.id, d) for d in (describe_find(search.id, row) for row in rows))
            if found:
                put = await outbox.put_deliveries(session, list(found.values()), MAX_WAITING)
                if put.given_up:
                    log.warning(
                        "matches of subscriptions with too many pending messages are discarded",
                        extra={"tenant_id": str(tenant_id), "finds": put.given_up},
                    )
                if put.waiting:
                    await self.jobs.enqueue(session, "deliver_webhooks", "webhooks")
            await db.finish_changes(session, changes, by_words=kind == "words")
            left = await db.count_changes(session)
        self.jobs.wake()
        log.info(
            "changes compared",
            extra={"tenant_id": str(tenant_id), "changes": len(changes), "finds": len(found), "left": left},
        )
        if not left:
            return None
        if len(changes) == BATCH:
            return 0.0
        # Many entries without vectors will wait longer, and checking them costs more.
        return LATER_SECONDS if kind == "words" else min(AGAIN_SECONDS + left / BATCH, LONGEST_SECONDS)

    def _read(self, tenant: TenantContext, active: db.ActiveSearch) -> Standing | None:
        try:
            query = read_request({**active.request, "limit": 1})
            plan = make_plan(query, tenant, self.defaults)
            return Standing(active.saved_search_id, active.request, plan, active.principals)
        except InvalidInput as error:
            # For example, a query_embedding for a model that the tenant no longer uses.
            log.warning(
                "a saved search is no longer valid: %s",
                ", ".join(e.field for e in error.errors),
                extra={"tenant_id": str(tenant.tenant_id), "saved_search_id": str(active.saved_search_id)},
            )
            return None

    async def _embed(self, tenant: TenantContext, standing: Sequence[Standing]) -> dict[UUID, list[Vector]] | None:
        """Return the vectors of the searches that use some, for each part of a query; None while the provider fails."""
        vectors: dict[UUID, list[Vector]] = {}
        asked: dict[UUID, Sequence[str]] = {}
        try:
            for search in (s for s in standing if s.by_meaning):
                query = search.plan.query
                if query.query_embedding is None:
                    asked[search.id] = split_query(find_provider(self.providers, tenant), search.plan.asked.text).texts
                else:
                    vectors[search.id] = [make_unit_vector(query.query_embedding)]
            texts = list(dict.fromkeys(text for parts in asked.values() for text in parts))
            if texts:
                embedded = await find_provider(self.providers, tenant).embed_queries(texts)
                made = dict(zip(texts, embedded, strict=True))
                vectors |= {search_id: [made[text] for text in parts] for search_id, parts in asked.items()}
        except EmbeddingUnavailable:
            return None
        return vectors

    async def _find(
        self,
        session: TenantSession,
        tenant: TenantContext,
        search: Standing,
        ids: Sequence[UUID],
        vector: Vector | None,
    ) -> Sequence[db.Match]:
        plan = await apply_operators(session, search.plan)
        text, by_words = plan.asked.text, plan.query.mode != "semantic"
        return await db.match_entries(
            session,
            Sought(tenant.space, text, vector, plan.entry_filter),
            ids,
            words="" if is_identifier(text) else text,
            alternatives=await find_alternatives(session, plan) if by_words and ids else (),
            by_words=by_words,
            required=plan.required,
            # Half precision rounds a cosine by up to 1e-3; as in a search, a cosine on the threshold passes.
            threshold=plan.threshold - 1e-4,
        )


def describe_find(saved_search_id: UUID, match: db.Match) -> NewDelivery:
    """Make the delivery of a matched entry; its id depends on the saved search, the entry and its content.

    For a chunk, the asset stands for the entry: a new version of a document does not send unchanged chunks again.
    """
    entry, shares_words, similarity = match
    made = fingerprint(entry)
    legs = [leg for leg, found in (("semantic", similarity is not None), ("keyword", shares_words)) if found]
    return NewDelivery(
        id=uuid5(saved_search_id, f"{entry.asset_id or entry.id} {made.hex()}"),
        saved_search_id=saved_search_id,
        entry_id=entry.id,
        fingerprint=made,
        finding={"sources": legs, "similarity": similarity},
    )


def fingerprint(entry: EntryCore) -> bytes:
    """Hash an entry's matched fields and metadata; a chunk's metadata, which has its position, is excluded."""
    parts = [getattr(entry, name) for name in MATCHED_FIELDS]
    if entry.asset_id is None:
        parts.append(entry.metadata)
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).digest()
