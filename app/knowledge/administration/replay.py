"""The replay of a search: its ranking then, and what the same search finds now as of its time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from app.db.database import Database
from app.db.principals import Rights, acting_as
from app.db.queries.search import replays as db
from app.db.queries.search.receipts import KeptSearch, ModelName, RankedEntry
from app.db.queries.search.replays import Trace
from app.errors import InvalidInput
from app.knowledge.administration.service import AdministrationService
from app.knowledge.search.journal.continuation import mark_search
from app.knowledge.search.journal.receipts import rank_entries, service_version
from app.knowledge.search.query import SearchQuery, read_values
from app.knowledge.search.service import KnowledgeSearchService
from app.knowledge.versions.service import VersionService
from app.knowledge.vocabulary import Weights

CLOSE = 1e-6
"""Relative difference of two scores up to which they are equal."""

SETTINGS = frozenset(("type_weights", "verified_boost", "rerank"))
"""Settings of a tenant that change a ranking and are not in its receipt."""

DifferenceReason = Literal["deleted", "changed", "not_found", "not_ranked_then", "other_score", "other_rank"]
Cause = Literal[
    "versions_not_kept",
    "model_changed",
    "settings_changed",
    "service_changed",
    "degraded_then",
    "degraded_now",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """A candidate whose place or score differs; ranks start at 1, None: it is in one of the rankings only.

    `reason`: `deleted`: neither the entry nor the version that was ranked is there any more. `changed`: the entry is
    there in another version, and the one that was ranked is not kept. `not_found`: it is there, and the search does
    not find it. `not_ranked_then`: only the replay has it. `other_score` and `other_rank`: both have it.
    """

    id: UUID
    then_rank: int | None
    now_rank: int | None
    then_score: float | None
    now_score: float | None
    reason: DifferenceReason


@dataclass(frozen=True, slots=True)
class Replay:
    """Both rankings of a search, and their differences.

    Attributes:
        as_of: the time that the replay names; None if the tenant keeps no versions of it: then it ran on what is
            valid now.
        same: whether both rankings have the same candidates with the same scores in the same order.
        causes: what differs between then and now, and may explain differences.
        settings: the settings among the causes.
    """

    search_id: UUID
    at: datetime
    as_of: datetime | None
    same: bool
    causes: Sequence[Cause]
    settings: Sequence[str]
    differences: Sequence[Difference]
    then: Sequence[RankedEntry]
    now: Sequence[RankedEntry]


class ReplayService:
    """Replays searches of the last day, for the tenant's admin."""

    def __init__(
        self,
        database: Database,
        administration: AdministrationService,
        search: KnowledgeSearchService,
        versions: VersionService,
    ) -> None:
        self._database = database
        self._administration = administration
        self._search = search
        self._versions = versions

    async def replay(
        self,
        tenant_id: UUID,
        search_id: UUID,
        *,
        query: str | None = None,
        query_embedding: Sequence[float] | None = None,
        reader: str | None = None,
    ) -> Replay:
        """Run a search again as of its time, with its settings and for its caller, and compare the rankings.

        `query` is needed if the tenant does not keep query texts, and `query_embedding` if the search had one. Raises
        SearchNotFound, InvalidInput (the query is missing, or another one), and as a search does.
        """
        kept = await self._administration.receipt(tenant_id, search_id, reader=reader)
        wanted = _rebuild(kept, query, query_embedding)
        moment = wanted.as_of or _began(search_id)
        as_of: datetime | None = moment
        try:
            await self._versions.require_kept(tenant_id, moment)
        except InvalidInput:
            if wanted.as_of is not None:
                raise
            as_of = None
        principals = kept.receipt.principals
        with nullcontext() if principals is None else acting_as(tuple(principals), Rights.READ):
            plan, ranking = await self._search.rank(tenant_id, replace(wanted, as_of=as_of))
        now = rank_entries(ranking, wanted)
        then = kept.receipt.ranking
        async with self._database.tenant_session(tenant_id) as session:
            traces = await db.trace(session, then)
            settings = sorted(SETTINGS.intersection(await db.changed_settings(session, kept.at)))
        model = plan.tenant.model
        differences = _compare(then, now, traces)
        causes: dict[Cause, bool] = {
            "versions_not_kept": as_of is None,
            "model_changed": wanted.mode != "keyword"
            and kept.receipt.model != ModelName(model.provider, model.name, model.dimensions),
            "settings_changed": bool(settings),
            "service_changed": kept.receipt.version != service_version(),
            "degraded_then": bool(kept.receipt.degraded),
            "degraded_now": bool(ranking.degraded),
        }
        return Replay(
            search_id,
            kept.at,
            as_of,
            not differences,
            [cause for cause, holds in causes.items() if holds],
            settings,
            differences,
            then,
            now,
        )


def _began(search_id: UUID) -> datetime:
    """When a search began: its id has the milliseconds. What was written in the same one counts."""
    began = datetime.fromtimestamp(((search_id.int >> 80) + 1) / 1000, UTC)
    return min(began, datetime.now(UTC) - timedelta(microseconds=1))


def _rebuild(kept: KeptSearch, query: str | None, vector: Sequence[float] | None) -> SearchQuery:
    """The query of a receipt with its effective settings. Raises InvalidInput."""
    receipt = kept.receipt
    text = receipt.query if query is None else query
    if text is None:
        raise InvalidInput.of("query", "is needed: the tenant does not keep the texts of queries")
    options = {name: value for name, value in receipt.options.items() if name not in ("facets", "explain")}
    settings: dict[str, Any] = {
        "mode": receipt.mode,
        "fusion": receipt.fusion,
        "weights": Weights(*receipt.weights),
        "rrf_k": receipt.rrf_k,
        "similarity_threshold": max(0.0, receipt.similarity_threshold),
    }
    wanted = SearchQuery(query=text, query_embedding=vector, **read_values(options), **settings)
    if mark_search(kept.id, wanted).query != receipt.asked.query:
        raise InvalidInput.of("query", "is not the query of this search")
    return wanted


def _compare(
    then: Sequence[RankedEntry], now: Sequence[RankedEntry], traces: dict[UUID, Trace]
) -> list[Difference]:
    """The candidates whose place or score differs, those of then first."""
    places = {entry.id: (rank, entry.score) for rank, entry in enumerate(now, 1)}
    found: list[Difference] = []
    for rank, entry in enumerate(then, 1):
        now_rank, now_score = places.pop(entry.id, (None, None))
        reason: DifferenceReason
        if now_rank is None or now_score is None:
            reason = _why_missing(traces[entry.id])
        elif not math.isclose(entry.score, now_score, rel_tol=CLOSE, abs_tol=1e-12):
            reason = "other_score"
        elif rank != now_rank:
            reason = "other_rank"
        else:
            continue
        found.append(Difference(entry.id, rank, now_rank, entry.score, now_score, reason))
    found += [
        Difference(entry_id, None, rank, None, score, "not_ranked_then")
        for entry_id, (rank, score) in places.items()
    ]
    return found


def _why_missing(trace: Trace) -> DifferenceReason:
    if trace.unchanged or trace.kept:
        return "not_found"
    return "changed" if trace.exists else "deleted"
