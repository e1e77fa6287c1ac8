"""`knowledge ingest`: ingest files."""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli.execution import ACTOR, open_tenant, read_settings, run_async, working
from app.cli.options import TenantOption, examples, json_option
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, remark
from app.errors import DatabaseUnavailable, InvalidInput, KnowledgeError, UnsupportedMediaType

if TYPE_CHECKING:
    from app.composition.services import Services
    from app.settings import Settings

MOST_REASONS = 10


def register(app: typer.Typer) -> None:
    """Add the command `ingest`."""
    app.command(
        short_help="Ingest files and wait until they are searchable.",
        epilog=examples(
            "knowledge ingest handbook.pdf --tenant demo",
            "knowledge ingest docs/ 'notes/**/*.md' --tenant demo --tag team",
        ),
    )(ingest)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to ingest; `named` is true if it was named itself, not found in a folder."""

    path: Path
    external_id: str
    named: bool


@dataclass(slots=True)
class Taken:
    """The outcome of the files; `failed` and `skipped` have a path and a reason each.

    `without_vector` counts the entries of the whole tenant that only keyword search finds.
    """

    files: int = 0
    new: int = 0
    unchanged: int = 0
    without_vector: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)


def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders, or patterns like 'docs/**/*.md'.")
    ],
    tenant: TenantOption,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag for every chunk; may be repeated.")
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE", help="Audience: pm, dev, qa or all."),
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "{files, indexed, unchanged, without_vector, skipped, failed}; the last two are lists of {path, reason}"
        ),
    ] = False,
) -> None:
    """Ingest files and wait until they are searchable: text, Markdown, HTML, PDF, DOCX, PPTX,
    XLSX, CSV, JSON, source code, and ZIP archives of these.

    Files are identified by their paths: a second run skips unchanged files and replaces changed ones. After
    Ctrl-C, the same command resumes. In folders, files that are hidden, empty or in an unsupported format
    are skipped. The exit status is 1 if a file failed.
    """
    settings = read_settings()
    found = list(find_files(paths))
    if not found:
        raise InvalidInput.of("PATH", "there is no file to ingest")
    outcome = run_async(_ingest(settings, tenant, found, tags or [], roles or []))
    if as_json:
        print_json(
            {
                "files": outcome.files,
                "indexed": outcome.new,
                "unchanged": outcome.unchanged,
                "without_vector": outcome.without_vector,
                "skipped": [{"path": path, "reason": reason} for path, reason in outcome.skipped],
                "failed": [{"path": path, "reason": reason} for path, reason in outcome.failed],
            }
        )
    else:
        typer.echo(
            f"{outcome.files} {'file' if outcome.files == 1 else 'files'}: {outcome.new} indexed,"
            f" {outcome.unchanged} unchanged,"
            f" {len(outcome.skipped)} skipped, {len(outcome.failed)} failed"
        )
        _list_reasons("skipped", outcome.skipped)
        _list_reasons("failed", outcome.failed)
        if outcome.without_vector:
            remark(f"{outcome.without_vector} entries have no vector yet; only keyword search finds them")
    if outcome.failed:
        raise typer.Exit(1)


def find_files(paths: Sequence[str]) -> Iterator[FoundFile]:
    """List the files that paths, folders and patterns name, each once. Raises InvalidInput for missing files."""
    seen: set[Path] = set()
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            matches = [(file, False) for file in _walk(path)]
        elif path.exists():
            matches = [(path, True)]
        else:
            matches = [
                (Path(m), False) for m in sorted(glob.glob(str(path), recursive=True)) if Path(m).is_file()
            ]
            if not matches:
                raise InvalidInput.of("PATH", f"there is no file {given}")
        for file, named in matches:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield FoundFile(file, name_file(file), named)


def name_file(path: Path) -> str:
    """The identity of a file: its path relative to the current folder, or its absolute path if it is elsewhere."""
    absolute = Path(os.path.abspath(path))
    here = Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else absolute).as_posix()


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                yield path


async def _ingest(
    settings: Settings, slug: str, found: Sequence[FoundFile], tags: Sequence[str], roles: Sequence[str]
) -> Taken:
    from app.cli.waiting import POLL_SECONDS, AssetWatch, wait_for_embeddings

    outcome = Taken(files=len(found))
    async with open_tenant(settings, slug) as (services, tenant), working(services):
        watch = AssetWatch(services, tenant.id)
        taken = 0
        try:
            with show_progress("files", len(found)) as report:
                looked = time.monotonic()
                for file in found:
                    asset_id = await _upload(services, tenant.id, file, tags, roles, outcome)
                    if asset_id is not None:
                        watch.waiting[asset_id] = file.external_id
                    taken += 1
                    if time.monotonic() - looked > POLL_SECONDS:
                        await watch.look()
                        looked = time.monotonic()
                    report(taken - len(watch.waiting))
                await watch.finish(lambda: report(taken - len(watch.waiting)))
        except asyncio.CancelledError:
            remark(
                f"{watch.indexed} files indexed, {len(watch.waiting)} more uploaded,"
                f" {len(found) - taken} not processed; run the same command to resume"
            )
            raise
        outcome.without_vector = await wait_for_embeddings(services, tenant.id)
        outcome.new = watch.indexed
        outcome.failed += watch.failed
    return outcome


async def _upload(
    services: Services,
    tenant_id: UUID,
    file: FoundFile,
    tags: Sequence[str],
    roles: Sequence[str],
    outcome: Taken,
) -> UUID | None:
    """Upload one file; returns the asset to wait for, if any."""
    from app.knowledge.entries.drafts import UNSET
    from app.knowledge.ingestion.assets import Upload

    try:
        services.assets.check_size(file.path.stat().st_size)
        data = await asyncio.to_thread(file.path.read_bytes)
        if not file.named and (not data or data.isspace()):
            outcome.skipped.append((file.external_id, "the file is empty"))
            return None
        upload = Upload(
            file.path.name, data, external_id=file.external_id, tags=tags or UNSET, roles=roles or UNSET
        )
        asset, _ = await services.assets.upload(tenant_id, upload, actor=ACTOR)
        if asset.status == "failed":
            asset = await services.assets.retry(tenant_id, asset.id, actor=ACTOR)
    except OSError as error:
        outcome.failed.append((file.external_id, error.strerror or type(error).__name__))
        return None
    except DatabaseUnavailable:
        raise
    except UnsupportedMediaType as error:
        (outcome.failed if file.named else outcome.skipped).append((file.external_id, str(error)))
        return None
    except KnowledgeError as error:
        outcome.failed.append((file.external_id, str(error)))
        return None
    if asset.status == "indexed":
        outcome.unchanged += 1
        return None
    return asset.id


def _list_reasons(label: str, reasons: Sequence[tuple[str, str]]) -> None:
    for path, reason in reasons[:MOST_REASONS]:
        remark(f"{label}: {path}: {reason}")
    if len(reasons) > MOST_REASONS:
        remark(f"{label}: and {len(reasons) - MOST_REASONS} more")
