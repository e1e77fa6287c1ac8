"""`knowledge export` and `import`: export a tenant as JSON Lines, and import it, or entries from a file."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast
from uuid import UUID

import typer

from app.cli.door import Door, open_door
from app.cli.execution import (
    Local,
    TenantOption,
    choose_target,
    confirm,
    json_option,
    open_tenant,
    program,
    read_settings,
    run_async,
)
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, remark
from app.cli.waiting import count_pending, wait_for_embeddings, wait_for_upkeep
from app.contract.vocabulary import COMMAND_LINE
from app.errors import ConfigurationError, InvalidInput
from knowledge_client import entries

if TYPE_CHECKING:
    from app.composition.services import Services
    from app.contract.entries import BulkResult, EntryDraft
    from app.knowledge.transfer.entry_import import Imported
    from app.knowledge.transfer.records import Restored, TextLine
    from app.settings import Settings
    from knowledge_client.fields import NewEntry


@program.add(
    "knowledge export --tenant demo > demo.jsonl",
    "knowledge export --tenant demo --vectors --output demo.jsonl",
    name="export",
)
def export_tenant(
    tenant: TenantOption,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout, which `-` is, too."),
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors, which a tenant on the same model need not make again.")
    ] = False,
    as_json: Annotated[
        bool, json_option("{entries, assets, vectors, file}; requires --output, because the export itself is JSON")
    ] = False,
) -> None:
    """Export a tenant as JSON Lines that `import` can restore: settings, assets with their
    files, entries and chunks with ids, times and links, saved searches, feedback.
    """
    if output == Path("-"):
        output = None
    if as_json and output is None:
        raise InvalidInput.of("--json", "requires --output: stdout has the export itself")
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
    """The destination of the export; a file appears only when it is complete, and only its owner can read it."""
    if output is None:
        yield sys.stdout.buffer
        return
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output))
    # A new file with a random name and mode 0600: no other user can read it, or have it written through a link.
    descriptor, name = tempfile.mkstemp(".part", f".{output.name[:100]}.", output.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        os.replace(name, output)
    finally:
        Path(name).unlink(missing_ok=True)


async def _export(settings: Settings, slug: str, stream: BinaryIO, vectors: bool) -> Counter[str]:
    written: Counter[str] = Counter()
    async with open_tenant(settings, slug) as (services, tenant):
        statistics = await services.administration.stats(tenant.id)
        total = statistics.entries + sum(statistics.assets_by_status.values())
        lines = services.export.lines(tenant.id, with_vectors=vectors, actor=COMMAND_LINE)
        with show_progress("entries and assets", total) as report:
            # Closed even if the reader of the output is closed: the transaction must end before the database.
            async with contextlib.aclosing(lines):
                async for kind, line in lines:
                    stream.write(line)
                    written[kind] += 1
                    report(written["entry"] + written["asset"])
    return written


@program.add(
    "knowledge import corpus.jsonl --tenant scifact",
    "knowledge export --tenant demo > demo.jsonl && knowledge import demo.jsonl --tenant copy",
    name="import",
)
def import_entries(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An export, or entries as JSON Lines, JSON array, YAML or CSV.")
    ],
    tenant: TenantOption,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Wait until every entry has its vector; at most a minute while the provider is down.",
        ),
    ] = True,
    clear: Annotated[
        bool, typer.Option("--clear", help="First delete all entries and assets of the tenant, after asking.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --clear deletes.")] = False,
    as_json: Annotated[
        bool,
        json_option(
            "{created, unchanged, failed, reasons, without_vector, failures, …}; failures are {line, error}, reasons"
            " counts by reason"
        ),
    ] = False,
) -> None:
    """Import a file. Importing it again, also after Ctrl-C, does not change existing data.

    An export restores a tenant's settings, assets and entries, including ids and times. If the file has only
    entries, each gets a new id, and references follow; its `id`, or a BEIR `_id`, is kept as the `external_id`.
    Fields are those of an entry; omitted ones keep their value. In CSV the first row has their names, and cells of
    tags, roles, source_ids, readers and writers are separated by commas. Empty texts are skipped and
    counted; a record without text is refused. The exit status is 1 if something was refused.
    """
    target = choose_target(tenant)
    if not file.is_file():
        raise InvalidInput.of("FILE", f"there is no file {file}")
    header = _read_header(file)
    if not isinstance(target, Local) and (clear or header is not None):
        raise ConfigurationError(
            "KB_URL", "is set, but --clear and exports need the database of the service", "unset KB_URL"
        )
    if clear:
        _check_first(file)
        confirm(f"Delete all entries and assets of {tenant}?", yes=yes)

    # Clearing and restoring are not part of the API.
    if clear:
        with open_door(target, here=True) as door:
            assets, entries = door.work(_clear)
        remark(f"deleted {assets} assets with their chunks, and {entries} entries")
    outcome: Restored | Imported
    # A worker starts first: vectors are created while the rest is still being written.
    with open_door(target, works=wait, here=header is not None) as door:
        if header is not None:
            outcome = door.work(lambda services, tenant_id: _restore(services, tenant_id, file, header))
        else:
            outcome = asyncio.run(_write(door, file))
        unembedded = wait_for_embeddings(door) if wait else count_pending(door)
        if wait and unembedded == 0 and door.is_local:
            wait_for_upkeep(door)
    if as_json:
        print_json(
            {
                **outcome.counts(),
                "reasons": dict(outcome.reasons),
                "without_vector": unembedded,
                "failures": outcome.failures,
            }
        )
    else:
        counts = outcome.counts()
        typer.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
        for failure in outcome.failures:
            remark(f"failed: line {failure.line}: {failure.error}")
        if outcome.failed > len(outcome.failures):
            remark(f"failed: and {outcome.failed - len(outcome.failures)} more")
        if unembedded:
            remark(f"{unembedded} entries have no vector yet; only keyword search finds them")
    if outcome.failed:
        raise typer.Exit(1)


def _check_first(file: Path) -> None:
    """Raise InvalidInput if the first record is refused, so that nothing is deleted for a file of another kind."""
    from app.knowledge.transfer.records import Record, parse_record, read_records

    if _read_header(file) is not None:
        return
    first = next(iter(read_records(file)), Record(1, error="the file has no record"))
    try:
        if first.error is not None:
            raise ValueError(first.error)
        parse_record(first.line, first.value)
    except ValueError as error:
        raise InvalidInput.of("FILE", f"nothing was deleted; line {first.line}: {error}") from None


async def _clear(services: Services, tenant_id: UUID) -> tuple[int, int]:
    from app.knowledge.transfer.entry_import import clear_tenant

    return await clear_tenant(services.database, tenant_id, COMMAND_LINE)


def _read_header(file: Path) -> Mapping[str, Any] | None:
    """The first line of an export; None for a file of entries."""
    from app.knowledge.transfer.records import MAX_RECORD
    from app.knowledge.transfer.tenant import read_header

    with file.open("rb") as stream:
        return read_header(stream.readline(MAX_RECORD))


class _Entries:
    """The entries behind a door, for an import, which does one thing at a time."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def create_many(
        self, tenant_id: UUID, items: Sequence[EntryDraft], *, actor: str = COMMAND_LINE
    ) -> Sequence[BulkResult]:
        from app.contract.entries import BulkResult

        found = self._door.run(entries.create_entries(cast("NewEntry", item.given()) for item in items))
        return [BulkResult(each.index, each.id, each.status, each.error) for each in found]  # type: ignore[arg-type]  # a newer service's

    async def get(self, tenant_id: UUID, entry_id: UUID) -> object:
        return self._door.run(entries.get_entry(entry_id))


async def _write(door: Door, file: Path) -> Imported:
    """Write the entries of a file, and then their references."""
    from app.knowledge.transfer.entry_import import EntryImport
    from app.knowledge.transfer.records import count_lines

    importer = EntryImport(_Entries(door), UUID(int=0), COMMAND_LINE)  # the door has the tenant
    total = count_lines(file)
    with show_progress("lines", total) as report:
        await importer.write_entries(file, report)
        report(total)  # the last record may have more lines, or none follow it
    if importer.has_references:
        with show_progress("relations", importer.outcome.lines) as report:
            await importer.write_references(file, report)
    return importer.outcome


async def _restore(services: Services, tenant_id: UUID, file: Path, header: Mapping[str, Any]) -> Restored:
    from app.knowledge.transfer.records import count_lines

    restoration = services.restoration(tenant_id, COMMAND_LINE)
    total = count_lines(file)
    with show_progress("lines", total) as report:
        await restoration.write(header, _after_header(file), report)
        report(total)  # blank lines may follow the last one
    if restoration.has_references:
        with show_progress("relations", restoration.outcome.lines) as report:
            await restoration.link(_after_header(file), report)
    await restoration.finish()
    return restoration.outcome


def _after_header(file: Path) -> Iterator[TextLine]:
    from app.knowledge.transfer.records import read_lines

    return (line for line in read_lines(file, exported=True) if line.number > 1)
