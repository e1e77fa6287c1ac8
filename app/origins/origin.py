"""An origin: it lists all its files, or fails; it never returns part of a list."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from app.errors import KnowledgeError

LOGIN = re.compile(r"(?<=://)[^/\s]*@")
"""User and password in a URL; the password can contain an @."""
_PARAMETER = re.compile(
    r"([?&;][^=&;#\s]*(?:token|key|sig|secret|passw|pwd|auth|credential|code|session)[^=&;#\s]*=)[^&;#\s]+", re.I
)


class OriginUnavailable(KnowledgeError):
    """The origin cannot be listed completely, or a file of it cannot be read; the text has the reason."""


@dataclass(frozen=True, slots=True)
class OriginFile:
    """A file of an origin; `digest` identifies its content, and `size` is in bytes, if it is known."""

    path: str
    digest: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of an origin; `skipped` are omitted on purpose, each with a path and a reason."""

    files: Sequence[OriginFile]
    skipped: Sequence[tuple[str, str]] = ()


class Origin(Protocol):
    """Where the files of a source come from."""

    @property
    def description(self) -> str:
        """The origin as it is shown, without passwords."""

    def open(self) -> AbstractContextManager[OpenOrigin]:
        """Connect, for one run. Blocks. Raises OriginUnavailable."""


class OpenOrigin(Protocol):
    """An origin during one run; its methods block."""

    def list_files(self) -> Listing:
        """All files. Raises OriginUnavailable unless the list is complete."""

    def read(self, file: OriginFile, most: int) -> bytes:
        """The bytes of a listed file, or its first bytes, more than `most`, if it is larger. Raises OriginUnavailable,
        also when the file has changed since it was listed."""


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Files to omit: hidden ones, and files whose path matches a pattern such as `drafts/*` or `*.tmp`."""

    patterns: Sequence[str] = ()

    def refuse(self, path: str) -> str | None:
        """The reason to omit the file with this path, relative to the origin."""
        if any(part.startswith(".") for part in path.split("/")):
            return "hidden"
        return "excluded" if any(_matches(path, pattern) for pattern in self.patterns) else None


def _matches(path: str, pattern: str) -> bool:
    """Whether a path or one of the folders above it matches; a pattern without `/` matches a name anywhere."""
    parts = path.split("/")
    heads: Iterator[str] = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    pattern = pattern.rstrip("/")
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in parts)
    return any(fnmatchcase(head, pattern.lstrip("/")) for head in heads)


def hide_login(text: str) -> str:
    """The text without users and passwords in URLs, and without the values of parameters such as tokens."""
    return _PARAMETER.sub(r"\1…", LOGIN.sub("", text))


def digest_pieces(pieces: Iterable[bytes]) -> tuple[str, int]:
    """The SHA-256 of a content, as a file's digest, and its size in bytes."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return f"sha256:{digest.hexdigest()}", size


def show_path(path: str) -> str:
    """The path as text, also if its bytes are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def check_path(path: str) -> str:
    """The path, unless it cannot be the id of an item. Raises OriginUnavailable."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise OriginUnavailable(f"the name of {show_path(path)} is not UTF-8: rename the file, or exclude it") from None
    if len(path) > 512:
        raise OriginUnavailable(f"the path {path[:60]}… is longer than 512 characters: exclude it")
    return path
