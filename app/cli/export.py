"""`knowledge export`: export a tenant as JSON Lines."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from app.cli.execution import Commands, TenantOption, json_option, open_tenant, read_settings, run_async
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, remark
from app.contract.vocabulary import COMMAND_LINE
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.settings import Settings


program = Commands()


@program.add(
    "knowledge export --tenant demo > demo.jsonl",
    "knowledge export --tenant demo --vectors --output demo.jsonl",
    name="export",
)
def export_tenant(
    tenant: TenantOption,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout.")
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
