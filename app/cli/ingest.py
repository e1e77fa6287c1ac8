"""`knowledge ingest`: ingest the files that paths, folders and patterns name."""

import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from app.cli import options
from app.cli.door import Door, open_door
from app.cli.execution import TenantOption, choose_target, json_option, program
from app.cli.output.failures import Interrupted
from app.cli.output.progress import show_progress
from app.cli.output.text import MOST_REASONS, list_reasons, name_some, print_json, remark
from app.cli.waiting import AssetWatch, wait_for_embeddings
from app.concurrency.patience import POLL_SECONDS
from app.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    Forbidden,
    InvalidInput,
    KnowledgeError,
    NotAWriter,
    ServiceUnreachable,
    TenantNotFound,
    Unauthenticated,
    UnsupportedMediaType,
)
from knowledge_client import assets
from knowledge_client.models import Asset

PIECE = 1 << 16
OF_THE_RUN = (ConfigurationError, DatabaseUnavailable, Forbidden, ServiceUnreachable, TenantNotFound, Unauthenticated)
"""Errors that every other file would meet, too."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to ingest; `named` is true if it was named itself, not found in a folder.

    `target` is the path without links; `refusal` is the reason why it is skipped without being opened.
    """

    path: Path
    target: Path
    external_id: str
    named: bool
    refusal: str | None = None

    def open(self) -> BinaryIO:
        """Open the file. Raises OSError, also where a file that was found has since become a link."""
        return os.fdopen(os.open(self.target, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def find_files(paths: Sequence[str]) -> Iterator[FoundFile]:
    """List the files that paths, folders and patterns name, each once. Raises InvalidInput for missing files.

    A link is followed if it is named itself. In a folder and in the matches of a pattern, a link that leads out of the
    folder or to a hidden file has a refusal, and so has a linked folder.
    """
    seen: set[Path] = set()
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            root, named, matches = path, False, list(_walk(path))
        elif path.exists():
            root, named, matches = path.parent, True, [path]
        else:
            root, named = _find_root(path), False
            matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
            matches = [match for match in matches if match.is_file()]
            if not matches:
                raise InvalidInput.of("PATH", f"there is no file {given}")
        for file in matches:
            target = file.resolve()
            refusal = None if named else _find_refusal(file, target, root)
            identity = target if refusal is None else file.absolute()
            if identity not in seen:
                seen.add(identity)
                yield FoundFile(file, target, name_file(file), named, refusal)


def name_file(path: Path) -> str:
    """The identity of a file: its path relative to the current folder, or its absolute path if it is elsewhere."""
    absolute = Path(os.path.abspath(path))
    here = Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else absolute).as_posix()


def _walk(folder: Path) -> Iterator[Path]:
    """Files, and links to folders, which are not entered."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (path for name in folders if (path := Path(place, name)).is_symlink())
        for name in sorted(names):
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _find_root(pattern: Path) -> Path:
    """The folder before the first part of a pattern that has a wildcard."""
    plain = []
    for part in pattern.parts[:-1]:
        if glob.has_magic(part):
            break
        plain.append(part)
    return Path(*plain)


def _find_refusal(file: Path, target: Path, root: Path) -> str | None:
    inside = root.resolve()
    direct = inside / os.path.relpath(os.path.abspath(file), os.path.abspath(root))
    if target == direct:
        return None
    if not target.is_relative_to(inside):
        return "the link leads out of the folder"
    if any(part.startswith(".") for part in target.relative_to(inside).parts):
        return "the link leads to a hidden file"
    return "a linked folder is not followed" if target.is_dir() else None


@dataclass(slots=True)
class Taken:
    """The outcome of the files; `failed` and `skipped` have a path and a reason each, `without_text` a path and asset.

    `without_vector` counts the entries of the whole tenant that only keyword search finds; None where the token may not
    read it.
    """

    files: int = 0
    new: int = 0
    unchanged: int = 0
    without_vector: int | None = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    without_text: list[tuple[str, Asset]] = field(default_factory=list)


@program.add(
    "knowledge ingest handbook.pdf --tenant demo", "knowledge ingest docs/ 'notes/**/*.md' --tenant demo --tag team"
)
def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders, or patterns like 'docs/**/*.md'.")
    ],
    tenant: TenantOption,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag for every chunk; may be repeated.")
    ] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="Audience: pm, dev, qa or all.")
    ] = None,
    readers: options.Readers = None,
    writers: options.Writers = None,
    as_json: Annotated[
        bool,
        json_option(
            "{files, indexed, unchanged, without_vector, skipped, failed, pages_without_text, places_without_text};"
            " skipped and failed are lists of {path, reason}, the last two of {path, pages} and {path, places}"
        ),
    ] = False,
) -> None:
    """Ingest files and wait until they are searchable: text and markup, HTML, SVG, PDF, files of Office and
    OpenDocument, EPUB, e-mail, notebooks, captions, CSV, JSON, source code, images (with the extra `ocr`), and ZIP
    archives of these, each of at most 50 MiB (`KB_MAX_UPLOAD_BYTES`) and 20,000,000 characters of text.

    Files are identified by their paths: a second run skips unchanged files and replaces changed ones. After
    Ctrl-C, the same command resumes. In folders, files that are hidden, empty or in an unsupported format
    are skipped, and so are links that lead out of the folder. The exit status is 1 if a file failed; skipped files
    do not count.
    """
    target = choose_target(tenant)
    found = list(find_files(paths))
    if not found:
        raise InvalidInput.of("PATH", "there is no file to ingest")
    lists = {"readers": readers, "writers": writers}
    fields: dict[str, Any] = {"tags": tags or (), "roles": roles or ()}
    fields |= {name: given for name, given in lists.items() if given and given != ["all"]}
    opened = [name for name, given in lists.items() if given == ["all"]]
    with open_door(target, works=True) as door:
        outcome = _ingest(door, found, fields, opened)
    pages = [(path, asset.pages_without_text) for path, asset in outcome.without_text if asset.pages_without_text]
    places = [(path, asset.places_without_text) for path, asset in outcome.without_text if asset.places_without_text]
    if as_json:
        print_json(
            {
                "files": outcome.files,
                "indexed": outcome.new,
                "unchanged": outcome.unchanged,
                "without_vector": outcome.without_vector,
                "skipped": [{"path": path, "reason": reason} for path, reason in outcome.skipped],
                "failed": [{"path": path, "reason": reason} for path, reason in outcome.failed],
                "pages_without_text": [{"path": path, "pages": list(numbers)} for path, numbers in pages],
                "places_without_text": [{"path": path, "places": list(numbers)} for path, numbers in places],
            }
        )
    else:
        typer.echo(
            f"{outcome.files} {'file' if outcome.files == 1 else 'files'}: {outcome.new} indexed,"
            f" {outcome.unchanged} unchanged,"
            f" {len(outcome.skipped)} skipped, {len(outcome.failed)} failed"
        )
        list_reasons("skipped", outcome.skipped)
        list_reasons("failed", outcome.failed)
        for label, named in (("pages without text", pages), ("pictures without text, at characters", places)):
            list_reasons(label, [(path, name_some(numbers, MOST_REASONS)) for path, numbers in named])
        if outcome.without_vector:
            remark(f"{outcome.without_vector} entries have no vector yet; only keyword search finds them")
    if outcome.failed:
        raise typer.Exit(1)


def _ingest(door: Door, found: Sequence[FoundFile], fields: Mapping[str, Any], opened: Sequence[str]) -> Taken:
    outcome = Taken(files=len(found))
    watch = AssetWatch(door)
    taken = 0
    try:
        with show_progress("files", len(found)) as report:
            looked = time.monotonic()
            for file in found:
                asset = _upload(door, file, fields, opened, outcome)
                if asset is not None:
                    watch.waiting[asset.id] = file.external_id
                taken += 1
                if time.monotonic() - looked > POLL_SECONDS:
                    watch.look()
                    looked = time.monotonic()
                report(taken - len(watch.waiting))
            watch.finish(lambda: report(taken - len(watch.waiting)))
    except Interrupted:
        remark(
            f"{watch.indexed} files indexed, {len(watch.waiting)} more uploaded,"
            f" {len(found) - taken} not processed; run the same command to resume"
        )
        raise
    outcome.without_vector = wait_for_embeddings(door)
    outcome.new = watch.indexed
    outcome.failed += watch.failed
    outcome.without_text = watch.without_text
    return outcome


def _upload(
    door: Door, file: FoundFile, fields: Mapping[str, Any], opened: Sequence[str], outcome: Taken
) -> Asset | None:
    """Upload one file, and open the lists that are `opened` to all; returns the asset to wait for, if any."""
    if file.refusal is not None:
        outcome.skipped.append((file.external_id, file.refusal))
        return None
    try:
        asset = _send(door, file, fields)
        if asset is None:
            outcome.skipped.append((file.external_id, "the file is empty"))
            return None
        asset = _follow(door, asset, opened)
    except OSError as error:
        outcome.failed.append((file.external_id, error.strerror or type(error).__name__))
        return None
    except NotAWriter as error:
        outcome.failed.append((file.external_id, str(error)))
        return None
    except OF_THE_RUN:
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
    return asset


def _send(door: Door, file: FoundFile, fields: Mapping[str, Any]) -> Asset | None:
    """Upload one file; None for an empty one that was found. Raises TooLarge before it is read."""
    with file.open() as data:
        door.check_size(os.fstat(data.fileno()).st_size)
        if not file.named and _is_blank(data):
            return None
        return door.run(
            assets.upload_asset(
                data, name=file.path.name, media_type="application/octet-stream", external_id=file.external_id, **fields
            )
        )


def _follow(door: Door, asset: Asset, opened: Sequence[str]) -> Asset:
    """Open the asset's lists that a form can only fill, and read it again if it failed before."""
    cleared: dict[str, Any] = {name: None for name in opened if getattr(asset, name) is not None}
    if cleared:
        asset = door.run(assets.change_asset(asset.id, **cleared))
    return door.run(assets.retry_asset(asset.id)) if asset.status == "failed" else asset


def _is_blank(data: BinaryIO) -> bool:
    """Whether the file has only white space, and is at its start."""
    while piece := data.read(PIECE):
        if not piece.isspace():
            break
    data.seek(0)
    return not piece
