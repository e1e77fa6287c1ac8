"""`knowledge import` and `knowledge export`: a tenant, or entries alone, as JSON Lines."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO
from uuid import UUID

import typer

from app.cli.execution import ACTOR, open_tenant, read_settings, run_async, working
from app.cli.options import TenantOption, examples, json_option
from app.cli.terminal import print_json, remark, show_progress
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.cli.entry_lines import Imported
    from app.composition.services import Services
    from app.knowledge.transfer.outcome import Restored
    from app.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the commands `import` and `export`."""
    app.command(
        "import",
        short_help="Write an export, or entries of a file, into a tenant.",
        epilog=examples(
            "knowledge import corpus.jsonl --tenant scifact",
            "knowledge export --tenant demo > demo.jsonl && knowledge import demo.jsonl --tenant copy",
        ),
    )(import_entries)
    app.command(
        "export",
        short_help="Print all that a tenant has as JSON Lines.",
        epilog=examples(
            "knowledge export --tenant demo > demo.jsonl",
            "knowledge export --tenant demo --vectors --output demo.jsonl",
        ),
    )(export_tenant)


def import_entries(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="What `export` wrote, entries as JSON Lines, or a BEIR corpus.jsonl."
        ),
    ],
    tenant: TenantOption,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Wait until every entry has its vector, or for a minute while the provider is away.",
        ),
    ] = True,
    as_json: Annotated[
        bool,
        json_option("{created, unchanged, failed, without_vector, failures, …}, failures of {line, error}"),
    ] = False,
) -> None:
    """Write what is in a file; doing it again, after Ctrl-C too, changes nothing that is there already.

    An export brings a tenant's settings, assets and entries back as they were, ids and times included. Of entries
    alone, those with an `id` get new ones, and what refers to them follows; a BEIR `_id` becomes the `external_id`;
    texts that are empty are skipped and counted. The status is 1 if something was refused.
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


def export_tenant(
    tenant: TenantOption,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")
    ] = None,
    vectors: Annotated[
        bool,
        typer.Option(
            "--vectors", help="With the vectors, which a tenant on the same model need not make again."
        ),
    ] = False,
    as_json: Annotated[
        bool, json_option("{entries, assets, vectors, file}; needs --output, since the export is itself JSON")
    ] = False,
) -> None:
    """Print all that a tenant has as JSON Lines, from which `import` makes it again: settings, assets with their
    files, entries and chunks with ids, times and links, saved searches, feedback.
    """
    if as_json and output is None:
        raise InvalidInput.of("--json", "needs --output: on stdout is the export itself")
    settings = read_settings()
    with _whole_file(output) as stream:
        written = run_async(_export(settings, tenant, stream, vectors))
        stream.flush()
    if as_json:
        counts = {"entries": written["entry"], "assets": written["asset"]}
        print_json({**counts, "vectors": vectors, "file": str(output)})
        return
    remark(
        f"{written['entry']} entries and chunks, {written['asset']} assets written"
        + (" with vectors" if vectors else "")
    )


@contextlib.contextmanager
def _whole_file(output: Path | None) -> Iterator[BinaryIO]:
    """Where the export goes; a file is there only once it is complete."""
    if output is None:
        yield sys.stdout.buffer
        return
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output))
    unfinished = output.with_name(f"{output.name}.part")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


async def _import(settings: Settings, slug: str, file: Path, wait: bool) -> tuple[Restored | Imported, int]:
    from app.cli.entry_lines import EntryImport, count_lines
    from app.knowledge.transfer.restoration import read_header

    async with contextlib.AsyncExitStack() as stack:
        services, tenant = await stack.enter_async_context(open_tenant(settings, slug))
        if wait:
            # From the start: vectors are made while the rest is still being written.
            await stack.enter_async_context(working(services))
        with file.open("rb") as stream:
            header = read_header(stream.readline())
        if header is not None:
            outcome: Restored | Imported = await _restore(services, tenant.id, file, header)
            return outcome, await _wait(services, tenant.id, wait)
        importer = EntryImport(services, tenant.id)
        with show_progress("lines", count_lines(file)) as report:
            await importer.write_entries(file, report)
        if importer.has_references:
            with show_progress("relations", importer.outcome.lines) as report:
                await importer.write_references(file, report)
        return importer.outcome, await _wait(services, tenant.id, wait)


async def _wait(services: Services, tenant_id: UUID, wait: bool) -> int:
    """How many entries have no vector, having waited for those that can be made, if that is wanted."""
    from app.cli.waiting import wait_for_embeddings, wait_for_upkeep

    if wait:
        unembedded = await wait_for_embeddings(services, tenant_id)
        if not unembedded:
            await wait_for_upkeep(services, tenant_id)
        return unembedded
    statistics = await services.administration.stats(tenant_id)
    return int(statistics["pending_embeddings"])


async def _restore(services: Services, tenant_id: UUID, file: Path, header: Mapping[str, Any]) -> Restored:
    from app.cli.entry_lines import count_lines
    from app.knowledge.transfer.restoration import TenantRestoration

    restoration = TenantRestoration(services.database, services.tenants, services.jobs, tenant_id, ACTOR)
    with show_progress("lines", count_lines(file)) as report:
        await restoration.write(header, _after_header(file), report)
    if restoration.has_references:
        with show_progress("relations", restoration.outcome.lines) as report:
            await restoration.link(_after_header(file), report)
    await restoration.finish()
    return restoration.outcome


def _after_header(file: Path) -> Iterator[tuple[int, bytes]]:
    from app.cli.entry_lines import read_lines

    return (line for line in read_lines(file) if line[0] > 1)


async def _export(settings: Settings, slug: str, stream: BinaryIO, vectors: bool) -> Counter[str]:
    from app.knowledge.transfer.export import TenantExport

    written: Counter[str] = Counter()
    async with open_tenant(settings, slug) as (services, tenant):
        statistics = await services.administration.stats(tenant.id)
        total = statistics["entries"] + sum(statistics["assets_by_status"].values())
        lines = TenantExport(services.database).lines(tenant.id, with_vectors=vectors, actor=ACTOR)
        with show_progress("entries and assets", total) as report:
            # Closed also where the reader of the output has gone: the transaction ends before the database is closed.
            async with contextlib.aclosing(lines):
                async for kind, line in lines:
                    stream.write(line)
                    written[kind] += 1
                    report(min(total, written["entry"] + written["asset"]))
    return written
