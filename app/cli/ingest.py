"""`knowledge ingest`: taking files in."""

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
        short_help="Take files in and wait until they can be found.",
        epilog=examples(
            "knowledge ingest handbook.pdf --tenant demo",
            "knowledge ingest docs/ 'notes/**/*.md' --tenant demo --tag team",
        ),
    )(ingest)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to take in; `named` says that it was named itself, not found in a folder."""

    path: Path
    external_id: str
    named: bool


@dataclass(slots=True)
class Taken:
    """What became of the files; `failed` and `skipped` hold a path and a reason each.

    `without_vector` counts what is found by its words only, of the whole tenant.
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
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag of every chunk; may be repeated.")
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE", help="Whom it is meant for: pm, dev, qa or all."),
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "{files, indexed, unchanged, without_vector, skipped, failed}, the last two lists of {path, reason}"
        ),
    ] = False,
) -> None:
    """Take files in and wait until they can be found: text, Markdown, HTML, PDF, DOCX, PPTX,
    XLSX, CSV, JSON, source code, and ZIP archives of these.

    A file is known by its path: run it again and unchanged files are left alone, changed ones replaced. After
    Ctrl-C the same command goes on where it stopped. In folders, what is hidden or empty or of a kind that is not read
    is skipped. The status is 1 if a file failed.
    """
    settings = read_settings()
    found = list(find_files(paths))
    if not found:
        raise InvalidInput.of("PATH", "there is no file to take in")
    outcome = run_async(_ingest(settings, tenant, found, tags or [], roles or ["all"]))
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
            remark(f"{outcome.without_vector} entries have no vector yet and are found by their words only")
    if outcome.failed:
        raise typer.Exit(1)


def find_files(paths: Sequence[str]) -> Iterator[FoundFile]:
    """The files that paths, folders and patterns name, each once. Raises InvalidInput for what is not there."""
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
    """What a file is known by: its path from the current folder, or from the root when it lies elsewhere."""
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
                f"{watch.indexed} files indexed, {len(watch.waiting)} more taken in,"
                f" {len(found) - taken} not looked at; the same command goes on from here"
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
    """Hand one file in; returns the asset to wait for, if there is one."""
    from app.knowledge.ingestion.assets import Upload

    try:
        services.assets.check_size(file.path.stat().st_size)
        data = await asyncio.to_thread(file.path.read_bytes)
        if not file.named and (not data or data.isspace()):
            outcome.skipped.append((file.external_id, "the file is empty"))
            return None
        upload = Upload(file.path.name, data, external_id=file.external_id, tags=tags, roles=roles)
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
