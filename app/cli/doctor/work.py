"""Checks of models, providers, indexes and queue."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, count, from_error, size
from app.cli.output.text import name_some
from app.errors import ConfigurationError, EmbeddingUnavailable, RerankerUnavailable

if TYPE_CHECKING:
    from app.db.database import Database
    from app.db.queries.diagnosis import Backlog
    from app.db.queries.statistics import OutdatedStatistics
    from app.db.rows import Connection
    from app.settings import Settings

COUNTING_SECONDS = 3.0
LATE_SECONDS = 300.0
"""A worker takes a due job within seconds; if it waits longer, there is no worker or too much work."""
MOST_NAMED = 3


async def check_models(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Check that every configured model is registered, and that every tenant's model has a provider."""
    from app.composition.providers import configured_models, find_models

    try:
        models = configured_models(settings)
        await find_models(database, models)
    except ConfigurationError as error:
        yield from_error("model", error)
        return
    for model in models:
        yield Finding("model", "ok", f"{model.provider}/{model.name}, {model.dimensions} dimensions, registered")


def _rebuild_index(name: str) -> str:
    from app.db.schema.scripts import read_file

    (created,) = re.findall(rf"create index {name} on [^;]+", read_file("entries"))
    return f"drop index if exists {name}; {' '.join(created.split())}"


async def check_indexes(connection: Connection) -> AsyncIterator[Finding]:
    """Check that the word index is complete and all indexes are valid; show how often each leg read its indexes."""
    from app.db.queries import diagnosis

    broken = await diagnosis.list_broken_indexes(connection)
    word = await diagnosis.read(diagnosis.WordIndex, connection)
    vector = await diagnosis.read(diagnosis.VectorIndexes, connection)
    whole = not broken
    if not word.present or word.attached < word.partitions:
        whole = False
        missing = word.partitions - word.attached
        detail = (
            f"{word.name} is incomplete: {missing} of {word.partitions} partitions have none"
            if word.present
            else f"{word.name} is missing, so every search of its leg scans whole tenants"
        )
        yield Finding("indexes", "wrong", detail, f"as the tables' owner: {_rebuild_index(word.name)}")
    if broken:
        yield Finding(
            "indexes",
            "wrong",
            f"Postgres does not use {name_some(broken, MOST_NAMED)}: the index is invalid",
            f"as the tables' owner: reindex index concurrently {broken[0]}",
        )
    if whole:
        detail = (
            f"valid: {word.name} {size(word.bytes)}, read {word.scans:,} times;"
            f" {vector.indexes:,} of the vectors of large tenants {size(vector.bytes)}, read {vector.scans:,} times"
        )
        yield Finding("indexes", "ok", detail)


async def check_work(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Check the backlog, failures, and whether a search of the largest indexed tenant uses its index."""
    from app.db.queries.diagnosis import measure_backlog
    from app.db.queries.statistics import list_outdated

    backlog = await measure_backlog(database, COUNTING_SECONDS)
    yield await _check_plan(settings, database, backlog)
    async with database.platform_session() as session:
        yield describe_statistics(await list_outdated(session))
    yield describe_queue(backlog, own_worker=settings.ingestion.worker)
    for finding in describe_failures(backlog):
        yield finding


async def _check_plan(settings: Settings, database: Database, backlog: Backlog) -> Finding:
    from app.db.queries.search import VectorSpace
    from app.db.queries.tenants import list_models
    from app.db.queries.vectors import explain_indexed
    from app.knowledge.search.legs.semantic import session_setup

    limit = settings.search.exact_limit
    if (largest := backlog.largest) is None or largest.passages <= limit:
        return Finding("plans", "ok", f"no tenant has more than {limit:,} passages: every search is exact")
    setup = session_setup(None, largest.passages)
    async with database.tenant_session(largest.tenant_id, setup=setup) as session:
        model = next(m.model for m in await list_models(session) if m.id == largest.model_id)
        plan = await explain_indexed(session, VectorSpace(largest.model_id, model.dimensions))
    return describe_plan(plan, f"embeddings_hnsw_{largest.model_id}_{largest.tenant_id.hex}", largest.passages)


def describe_plan(plan: str, index: str, passages: int) -> Finding:
    """Check that the plan of the semantic leg uses the tenant's index."""
    if f" {index} " in plan:
        return Finding("plans", "ok", f"a search among {passages:,} passages uses their vector index")
    return Finding(
        "plans",
        "wrong",
        f"a search among {passages:,} passages does not use their vector index",
        f"a worker builds a missing index within minutes; else, as the tables' owner: analyze embeddings; then look at"
        f" {index} and enable_indexscan",
    )


def describe_statistics(outdated: Sequence[OutdatedStatistics]) -> Finding:
    """Check that the planner knows the tables as they are."""
    if not outdated:
        return Finding("statistics", "ok", "the planner's statistics of entries and vectors are up to date")
    places = [table.place for table in outdated]
    state = "missing" if any(table.is_missing for table in outdated) else "old"
    return Finding(
        "statistics",
        "warning",
        f"searches are slower, as the planner's statistics are {state}: {name_some(places, MOST_NAMED)}",
        f"a worker renews them within minutes; else, as the tables' owner: analyze {places[-1]}",
    )


def describe_queue(backlog: Backlog, *, own_worker: bool) -> Finding:
    """Check that a worker does the queued work."""
    among = "" if backlog.counted == backlog.tenants else f" (first {backlog.counted} of {backlog.tenants} tenants)"
    detail = f"{count(backlog.jobs, 'job')}, {backlog.overdue:,} due, {backlog.pending:,} entries without vector{among}"
    remedy = (
        "start the service, or another worker: knowledge worker"
        if own_worker
        else "KB_WORKER is off here: also run knowledge worker"
    )
    if backlog.lost:
        lost = count(backlog.lost, "job")
        return Finding("queue", "warning", f"{detail}; the worker of {lost} has died", remedy)
    if backlog.oldest_seconds > LATE_SECONDS:
        minutes = round(backlog.oldest_seconds / 60)
        return Finding("queue", "wrong", f"{detail}; the oldest has waited {minutes:,} min", remedy)
    if backlog.overdue:
        detail += f"; the oldest has waited {backlog.oldest_seconds:.0f} s"
    return Finding("queue", "ok", detail)


def describe_failures(backlog: Backlog) -> list[Finding]:
    """Report assets that could not be parsed and entries that were refused, by tenant."""
    findings: list[Finding] = []
    if backlog.failed:
        number = sum(backlog.failed.values())
        findings.append(
            Finding(
                "assets",
                "warning",
                f"{count(number, 'asset')} could not be parsed, of {_name(backlog.failed)}",
                "ingest a corrected file; GET /knowledge/assets?status=failed shows why, POST …/retry tries again",
            )
        )
    else:
        findings.append(Finding("assets", "ok", "none failed"))
    if backlog.refused:
        number = sum(backlog.refused.values())
        findings.append(
            Finding(
                "vectors",
                "warning",
                f"the provider refused {'an entry' if number == 1 else f'{number:,} entries'} five times,"
                f" of {_name(backlog.refused)}: only keyword search finds them",
                "correct the provider or the entries; changing an entry's text retries it",
            )
        )
    return findings


def _name(tenants: Mapping[str, int]) -> str:
    most = sorted(tenants, key=lambda slug: -tenants[slug])
    more = f" and {len(most) - MOST_NAMED} other tenants" if len(most) > MOST_NAMED else ""
    return f"{', '.join(most[:MOST_NAMED])}{more}"


SLOW_SECONDS = 1.0
"""A search waits for the vector of its query."""


async def check_providers(settings: Settings) -> AsyncIterator[Finding]:
    """Embed a short query with each provider and measure the time."""
    import asyncio

    from app.composition.providers import build_providers

    try:
        providers = await asyncio.to_thread(build_providers, settings)
    except ConfigurationError as error:
        yield from_error("provider", error)
        return
    for provider in providers:
        name = f"{provider.model.provider}/{provider.model.name}"
        started = time.perf_counter()
        try:
            vector = await provider.embed_query("word")
        except EmbeddingUnavailable as error:
            yield Finding(
                "provider",
                "wrong",
                f"{error}; searches fall back to keywords",
                "correct the key, the address or the network; the service retries by itself",
            )
        else:
            seconds = time.perf_counter() - started
            detail = f"{name}: {len(vector)} dimensions in {round(1000 * seconds)} ms"
            slow = seconds > SLOW_SECONDS
            yield Finding(
                "provider",
                "warning" if slow else "ok",
                detail,
                "each search waits that long: choose a closer or faster provider" if slow else None,
            )
        finally:
            await provider.close()


async def check_reranker(settings: Settings) -> AsyncIterator[Finding]:
    """Score as many short texts as a search sends, and measure the time."""
    from app.composition.providers import build_configured_reranker

    try:
        reranker = build_configured_reranker(settings)
    except ConfigurationError as error:
        yield from_error("reranker", error)
        return
    if reranker is None:
        return
    started = time.perf_counter()
    try:
        await reranker.rerank("word", ["word", *["other text"] * (settings.reranker.candidates - 1)])
    except RerankerUnavailable as error:
        yield Finding(
            "reranker",
            "wrong",
            f"{error}; searches keep the fused order",
            "correct the address, the form, the model, the key or the network; the service retries by itself",
        )
    else:
        milliseconds = round(1000 * (time.perf_counter() - started))
        yield Finding(
            "reranker",
            "ok",
            f"{reranker.name}: {settings.reranker.candidates} short texts in {milliseconds} ms; long ones take longer",
        )
    finally:
        await reranker.close()
