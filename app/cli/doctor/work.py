"""What the service has to do, and what it searches with: models, indexes, queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, count, from_error, size
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.db.database import Database
    from app.db.queries.tenants.diagnosis import Backlog, Connection
    from app.settings import Settings

COUNTING_SECONDS = 3.0
LATE_SECONDS = 300.0
"""A worker takes a due job within seconds; one that waits longer has no worker, or more work than it can do."""
MOST_NAMED = 3
WORD_INDEX = "entries_by_lexeme"


async def check_models(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Whether every configured model is registered and every tenant's is served."""
    from app.composition.providers import configured_models, find_models

    try:
        models = configured_models(settings)
        await find_models(database, models)
    except ConfigurationError as error:
        yield from_error("model", error)
        return
    for model in models:
        yield Finding(
            "model", "ok", f"{model.provider}/{model.name}, {model.dimensions} dimensions, registered"
        )


async def check_indexes(connection: Connection) -> AsyncIterator[Finding]:
    """Whether the indexes of both legs are there, whole and valid, and how often they were read."""
    from app.db.queries.tenants import diagnosis

    broken = await diagnosis.list_broken_indexes(connection)
    parts: list[str] = []
    whole = not broken
    for index in await diagnosis.list_search_indexes(connection):
        name = index.name
        if not index.present or index.attached < index.partitions:
            whole = False
            remedy = "run: knowledge migrate" if name == WORD_INDEX else "run: knowledge model add"
            missing = index.partitions - index.attached
            detail = (
                f"{name} covers not all partitions: {missing} of {index.partitions} have none"
                if index.present
                else f"{name} is missing, so every search of its leg reads whole tenants"
            )
            yield Finding("indexes", "wrong", detail, f"{remedy}, which builds what is missing")
        parts.append(f"{name} {size(index.bytes)}, read {index.scans:,} times")
    if broken:
        shown = ", ".join(broken[:MOST_NAMED]) + (
            f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
        )
        yield Finding(
            "indexes",
            "wrong",
            f"Postgres does not use {shown}: not valid",
            f"as the tables' owner: reindex index concurrently {broken[0]}; then: knowledge model add",
        )
    if whole:
        yield Finding("indexes", "ok", f"valid: {'; '.join(parts)}")


async def check_work(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Backlog, failures, and whether a search of the largest indexed tenant uses its index."""
    from app.db.queries.tenants.diagnosis import measure_backlog

    backlog = await measure_backlog(database, COUNTING_SECONDS)
    yield await _check_plan(settings, database, backlog)
    yield describe_queue(backlog, own_worker=settings.ingestion.worker)
    for finding in describe_failures(backlog):
        yield finding


async def _check_plan(settings: Settings, database: Database, backlog: Backlog) -> Finding:
    from app.db.queries.search.search import VectorSpace
    from app.db.queries.tenants.diagnosis import explain_indexed
    from app.db.queries.tenants.tenants import list_models
    from app.knowledge.search.legs.semantic import session_setup

    limit = settings.search.exact_limit
    if (largest := backlog.largest) is None or largest.passages <= limit:
        return Finding(
            "plans", "ok", f"no tenant has more than {limit:,} passages: each search compares all, exactly"
        )
    setup = session_setup(None, largest.passages)
    async with database.tenant_session(largest.tenant_id, setup=setup) as session:
        model = next(m.model for m in await list_models(session) if m.id == largest.model_id)
        plan = await explain_indexed(session, VectorSpace(largest.model_id, model.dimensions))
    return describe_plan(plan, largest.model_id, largest.passages)


def describe_plan(plan: str, model_id: int, passages: int) -> Finding:
    """Whether a plan of the semantic leg reads the model's index."""
    if f"_hnsw_{model_id} " in plan:
        return Finding(
            "plans", "ok", f"a search among {passages:,} passages reads the index of their vectors"
        )
    return Finding(
        "plans",
        "wrong",
        f"a search among {passages:,} passages does not use the index of their vectors",
        "as the tables' owner: analyze embeddings; then look at embeddings_hnsw_* and enable_indexscan",
    )


def describe_queue(backlog: Backlog, *, own_worker: bool) -> Finding:
    """Whether somebody does the queued work."""
    among = (
        ""
        if backlog.counted == backlog.tenants
        else f" (first {backlog.counted} of {backlog.tenants} tenants)"
    )
    detail = (
        f"{count(backlog.jobs, 'job')}, {backlog.overdue:,} due,"
        f" {backlog.pending:,} entries without vector{among}"
    )
    remedy = (
        "start the service, or a second worker: knowledge worker"
        if own_worker
        else "KB_WORKER is off here: run knowledge worker beside the service"
    )
    if backlog.lost:
        lost = count(backlog.lost, "job")
        return Finding("queue", "warning", f"{detail}; the worker of {lost} is gone", remedy)
    if backlog.oldest_seconds > LATE_SECONDS:
        minutes = round(backlog.oldest_seconds / 60)
        return Finding("queue", "wrong", f"{detail}; the oldest has waited {minutes:,} min", remedy)
    if backlog.overdue:
        detail += f"; the oldest has waited {backlog.oldest_seconds:.0f} s"
    return Finding("queue", "ok", detail)


def describe_failures(backlog: Backlog) -> list[Finding]:
    """Assets that could not be read and entries that were refused, by tenant."""
    findings: list[Finding] = []
    if backlog.failed:
        number = sum(backlog.failed.values())
        findings.append(
            Finding(
                "assets",
                "warning",
                f"{count(number, 'asset')} could not be read, of {_name(backlog.failed)}",
                "ingest a mended file again; GET /knowledge/assets?status=failed says why, POST …/retry tries again",
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
                f" of {_name(backlog.refused)}: found by words alone",
                "mend the provider or the entries; a change of an entry's text has it tried anew",
            )
        )
    return findings


def _name(tenants: Mapping[str, int]) -> str:
    most = sorted(tenants, key=lambda slug: -tenants[slug])
    more = f" and {len(most) - MOST_NAMED} other tenants" if len(most) > MOST_NAMED else ""
    return f"{', '.join(most[:MOST_NAMED])}{more}"
