"""The files that paths, folders and patterns name."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import InvalidInput


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

    def read(self) -> bytes:
        """The file's bytes. Raises OSError, also where a file that was found has since become a link."""
        descriptor = os.open(self.target, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read()


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
