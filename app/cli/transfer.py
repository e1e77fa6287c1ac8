"""`knowledge import` and `knowledge export`: entries as JSON Lines."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO
from uuid import UUID

import orjson
import typer

from app.cli.execution import open_tenant, read_settings, run_async, working
from app.cli.options import JsonOption, TenantOption, examples
from app.cli.terminal import print_json, remark, show_progress
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.cli.entry_lines import Imported
    from app.composition import Services
    from app.settings import Settings

PAGE = 200


def register(app: typer.Typer) -> None:
    """Add the commands `import` and `export`."""
    app.command(
        "import",
        epilog=examples(
            "knowledge import corpus.jsonl --tenant scifact",
            "knowledge export --tenant demo > demo.jsonl && knowledge import demo.jsonl --tenant copy",
        ),
    )(import_entries)
    app.command("export", epilog=examples("knowledge export --tenant demo > demo.jsonl"))(export_entries)


def import_entries(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A BEIR corpus.jsonl, or entries as `export` writes them.")
    ],
    tenant: TenantOption,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until every entry has its vector.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Write the entries of a file; doing it again changes nothing.

    A BEIR `_id` becomes the `external_id`; texts that are empty are skipped and counted. Entries of another
    tenant get new ids, and what refers to them follows. The status is 1 if an entry was refused.
    """
    settings = read_settings()
    if not file.is_file():
        raise InvalidInput.of("FILE", f"there is no file {file}")
    outcome, unembedded = run_async(_import(settings, tenant, file, wait))
    if as_json:
        print_json({**outcome.counts(), "without_vector": unembedded, "failures": outcome.failures})
    else:
        counts = outcome.counts()
        typer.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
        for failure in outcome.failures:
            remark(f"failed: line {failure['line']}: {failure['error']}")
        if outcome.failed > len(outcome.failures):
            remark(f"failed: and {outcome.failed - len(outcome.failures)} more")
        if unembedded:
            remark(f"{unembedded} entries have no vector yet and are found by their words only")
    if outcome.failed:
        raise typer.Exit(1)


def export_entries(
    tenant: TenantOption,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")
    ] = None,
) -> None:
    """Print a tenant's entries as JSON Lines, newest first, as `import` and POST /knowledge/entries take them.

    Chunks of assets are left out: they are made from the files.
    """
    settings = read_settings()
    target = output.open("wb") if output is not None else contextlib.nullcontext(sys.stdout.buffer)
    with target as stream:
        written, chunks = run_async(_export(settings, tenant, stream))
        stream.flush()
    left_out = f"; {chunks} chunks of assets are left out" if chunks else ""
    remark(f"{written} entries written{left_out}")


async def _import(settings: Settings, slug: str, file: Path, wait: bool) -> tuple[Imported, int]:
    from app.cli.entry_lines import EntryImport, count_lines
    from app.cli.waiting import wait_for_embeddings

    async with contextlib.AsyncExitStack() as stack:
        services, tenant = await stack.enter_async_context(open_tenant(settings, slug))
        if wait:
            # From the start: vectors are made while the rest is still being written.
            await stack.enter_async_context(working(services))
        importer = EntryImport(services, tenant.id)
        with show_progress("lines", count_lines(file)) as report:
            await importer.write_entries(file, report)
        if importer.has_references:
            with show_progress("relations", importer.outcome.lines) as report:
                await importer.write_references(file, report)
        if wait:
            return importer.outcome, await wait_for_embeddings(services, tenant.id)
        statistics = await services.administration.stats(tenant.id)
        return importer.outcome, int(statistics["pending_embeddings"])


async def _export(settings: Settings, slug: str, stream: BinaryIO) -> tuple[int, int]:
    async with open_tenant(settings, slug) as (services, tenant):
        return await write_entries(services, tenant.id, stream)


async def write_entries(services: Services, tenant_id: UUID, stream: BinaryIO) -> tuple[int, int]:
    """Write a tenant's entries page by page; returns how many, and how many chunks were left out."""
    from app.knowledge.entry import DEFAULTS

    names = ("id", "content", *DEFAULTS)
    written = chunks = 0
    cursor: str | None = None
    while True:
        page = await services.entries.list_entries(tenant_id, limit=PAGE, cursor=cursor)
        for entry in page.items:
            if entry.asset_id is not None:
                chunks += 1
                continue
            values = {name: getattr(entry, name) for name in names}
            stream.write(orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE))
            written += 1
        cursor = page.next_cursor
        if cursor is None:
            return written, chunks
