"""`knowledge doctor`: diagnose problems and name remedies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.execution import is_database_absent, json_option, program, read_settings, run_async
from app.cli.output.text import make_console, make_text, print_json
from app.errors import KnowledgeError

if TYPE_CHECKING:
    from app.cli.doctor.finding import Finding
    from app.db.rows import Connection
    from app.settings import Settings

MOST_FINDINGS = 5
"""Maximum number of findings shown per check."""
COLOURS = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


@program.add("knowledge doctor", "knowledge doctor --verbose", "knowledge doctor --json")
def doctor(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print the checks that are ok.")] = False,
    as_json: Annotated[
        bool, json_option("a list of {check, status, detail, remedy}; status is ok, warning or wrong")
    ] = False,
) -> None:
    """Diagnose problems and show how to fix them. The exit status is 1 if something is wrong; warnings do not count.

    Checks settings, tokens, limits, the parser's protections, disk, database, clock, connections, pooler, pgvector,
    role, migrations, the isolation of tenants, models, indexes and their use, queue, failures and the embedding
    provider. Changes nothing.

    With KB_URL, checks whether that service can be used with KB_TOKEN: its address, state and clock, and the token.
    """
    findings = run_async(diagnose(), doing="looking")
    if as_json:
        print_json(findings)
    else:
        print_findings(findings, verbose=verbose)
    if any(finding.status == "wrong" for finding in findings):
        raise typer.Exit(1)


def print_findings(findings: Sequence[Finding], *, verbose: bool) -> None:
    """Print a line per finding, with its remedy on a second line; findings that are ok only if `verbose`."""
    from rich.table import Table

    console = make_console()
    width = max(len(finding.check) for finding in findings)
    table = Table.grid(padding=(0, 2, 0, 0))
    shown = Counter[str]()
    for finding in findings:
        if finding.status == "ok" and not verbose:
            continue
        shown[finding.check] += 1
        if shown[finding.check] > MOST_FINDINGS:
            continue
        cells = (
            make_text((f"{finding.status:<7}", COLOURS[finding.status])),
            make_text((f"{finding.check:<{width}}", "bold")),
            make_text((finding.detail, "")),
        )
        remedy = make_text((f"→ {finding.remedy}", "cyan")) if finding.remedy is not None else None
        if console.is_terminal:
            table.add_row(*cells)
            if remedy is not None:
                table.add_row("", "", remedy)
            continue
        console.print(*cells, sep="  ")
        if remedy is not None:
            console.print(" " * (width + 10), remedy)
    if console.is_terminal:
        console.print(table)
    if hidden := sum(number - MOST_FINDINGS for number in shown.values() if number > MOST_FINDINGS):
        console.print(make_text((f"and {hidden} more of the same: knowledge doctor --json", "yellow")))
    wrong, warnings = (sum(f.status == status for f in findings) for status in ("wrong", "warning"))
    if not wrong and not warnings:
        console.print(make_text((f"ok: {len(findings)} checks, nothing is wrong", "green")))
        return
    fine = len(findings) - wrong - warnings
    console.print(make_text((f"wrong: {wrong}, warnings: {warnings}, ok: {fine}", "dim")))


async def diagnose() -> list[Finding]:
    """Run all checks, except checks that depend on a failed one."""
    from app.cli.doctor import machine, work
    from app.cli.doctor.finding import Finding, from_error
    from app.cli.doctor.machine import check_sign_in
    from app.cli.execution import find_remote

    try:
        remote = find_remote()
        if remote is not None:
            from app.cli.doctor.machine import check_elsewhere

            return [finding async for finding in check_elsewhere(remote)]
        settings = read_settings()
    except KnowledgeError as error:
        return [from_error("settings", error)]
    embedded = settings.database.embedded
    place = f"embedded Postgres in {settings.database.data_dir}" if embedded else "Postgres of DATABASE_URL"
    return [
        Finding("settings", "ok", f"{place}, embeddings by {settings.embedding.provider}"),
        *[finding async for finding in machine.check_tokens(settings)],
        *[finding async for finding in check_sign_in(settings)],
        machine.check_encryption(settings),
        *machine.check_connection(settings),
        machine.check_limits(settings),
        await machine.check_parser(),
        machine.check_disk(settings),
        *[finding async for finding in _check_database(settings)],
        *[finding async for finding in work.check_providers(settings)],
        *[finding async for finding in work.check_reranker(settings)],
    ]


async def _check_database(settings: Settings) -> AsyncIterator[Finding]:
    from app.cli.doctor import database as checks
    from app.cli.doctor.database import check_notifications, check_replicas, check_statements
    from app.cli.doctor.finding import Finding
    from app.db.schema import catalog
    from app.db.schema.catalog import find_pooler

    if is_database_absent(settings):
        yield Finding("database", "warning", f"no database in {settings.database.data_dir} yet", "run: knowledge serve")
        return
    try:
        async with checks.reach(settings) as address:
            started = time.perf_counter()
            connection = await catalog.connect(address, "DATABASE_URL")
            seconds = time.perf_counter() - started
            async with catalog.using(connection):
                async for finding in checks.check_server(connection, settings, seconds):
                    yield finding
                pooler = await find_pooler(address, "DATABASE_URL")
                if pooler is not None:
                    statements = check_statements(settings, pooler)
                    yield statements
                    if statements.status == "wrong":
                        return
                for finding in await check_notifications(settings, address, pooler):
                    yield finding
                async for finding in _check_contents(settings, connection, address):
                    yield finding
                async for finding in check_replicas(settings, address):
                    yield finding
    except KnowledgeError as error:
        yield checks.describe_failure(error)


async def _check_contents(settings: Settings, connection: Connection, address: str) -> AsyncIterator[Finding]:
    from app.cli.doctor import database as checks
    from app.cli.doctor import work
    from app.composition.database import small_pool

    extension = await checks.check_extension(connection)
    role = await checks.check_role(connection)
    schema = await checks.check_schema(connection, embedded=settings.database.embedded)
    for finding in (extension, role, schema):
        yield finding
    # The other checks need tables of this version, and a role to which row-level security applies.
    if any(finding.status == "wrong" for finding in (extension, role, schema)):
        return
    async for finding in checks.check_isolation(connection, address):
        yield finding
    async with small_pool(address, settings) as database:
        async for finding in work.check_models(settings, database):
            yield finding
        async for finding in work.check_indexes(connection):
            yield finding
        async for finding in work.check_work(settings, database):
            yield finding
