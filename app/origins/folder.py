"""Folders on this machine."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from app.origins.origin import Exclusions, Listing, OriginFile, OriginUnavailable, check_path, digest_pieces, show_path

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with its subfolders. Links are ignored, wherever they lead."""

    path: Path
    exclusions: Exclusions

    @property
    def description(self) -> str:
        """Its absolute path."""
        return str(self.path.absolute())

    @contextlib.contextmanager
    def open(self) -> Iterator[Folder]:
        """The folder itself: nothing has to be opened."""
        yield self

    def list_files(self) -> Listing:
        """All files with the SHA-256 of their content. Raises OriginUnavailable."""
        files: list[OriginFile] = []
        skipped: list[tuple[str, str]] = []
        try:
            for path in self._walk(skipped):
                digest, size = self._digest(path)
                files.append(OriginFile(path, digest, size))
        except OSError as error:
            raise _unreadable(error) from error
        return Listing(files, skipped)

    def read(self, file: OriginFile, most: int) -> bytes:
        """The bytes of a file, up to one more than `most`. Raises OriginUnavailable."""
        try:
            with self._open(file.path) as stream:
                return stream.read(most + 1)
        except OSError as error:
            raise _unreadable(error) from error

    def _walk(self, skipped: list[tuple[str, str]]) -> Iterator[str]:
        def fail(error: OSError) -> None:
            raise error

        if not self.path.is_dir():
            raise OriginUnavailable(f"{self.path} is not a folder")
        for place, folders, names in os.walk(self.path, onerror=fail, followlinks=False):
            above = Path(place).relative_to(self.path)
            listed = [*sorted(folders), *sorted(names)]
            first_file = len(folders)
            folders.clear()
            for number, name in enumerate(listed):
                path = (above / name).as_posix()
                if (reason := self.exclusions.refuse(path) or self._refuse_link(path)) is not None:
                    skipped.append((show_path(path), reason))
                elif number < first_file:
                    folders.append(name)
                else:
                    yield check_path(path)

    def _refuse_link(self, path: str) -> str | None:
        mode = os.lstat(self.path / path).st_mode
        if stat.S_ISLNK(mode):
            return "a link"
        return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "not a file"

    def _digest(self, path: str) -> tuple[str, int]:
        with self._open(path) as stream:
            return digest_pieces(iter(lambda: stream.read(PIECE), b""))

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[BinaryIO]:
        descriptor = os.open(self.path / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            yield stream


def _unreadable(error: OSError) -> OriginUnavailable:
    return OriginUnavailable(f"{error.filename or 'a file'} cannot be read: {error.strerror or type(error).__name__}")
