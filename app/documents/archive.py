"""ZIP containers, opened with the means to refuse one that unpacks to far more than it is."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from app.documents.parsed import ParseLimits
from app.errors import UnreadableDocument

_MAX_MEMBERS = 10_000
# Deflate reaches 1,030; real documents stay below 100, apart from small ones.
_MAX_RATIO = 250
_RATIO_FROM = 16 << 20


@contextmanager
def open_archive(file: BinaryIO, label: str, limits: ParseLimits) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP file that claims to stay within the limits; raises UnreadableDocument otherwise."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_claims(archive, label, limits)
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError) as error:
        raise UnreadableDocument(f"the {label} file is damaged or incomplete") from error


def read_member(archive: zipfile.ZipFile, name: str, limits: ParseLimits) -> bytes | None:
    """A member's bytes, None if there is no such member; what it really unpacks to is limited as well."""
    try:
        member = archive.open(name)
    except KeyError:
        return None
    with member:
        content = member.read(limits.max_decompressed_bytes + 1)
    if len(content) > limits.max_decompressed_bytes:
        raise _too_large(limits)
    return content


def _check_claims(archive: zipfile.ZipFile, label: str, limits: ParseLimits) -> None:
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise UnreadableDocument(
            f"the {label} file has {len(members):,} parts; at most {_MAX_MEMBERS:,} are read"
        )
    if any(member.flag_bits & 1 for member in members):
        raise UnreadableDocument(f"the {label} file is encrypted; save it without a password")
    unpacked = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    if unpacked > limits.max_decompressed_bytes or (
        unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * packed
    ):
        raise _too_large(limits)


def _too_large(limits: ParseLimits) -> UnreadableDocument:
    return UnreadableDocument(
        "the file unpacks to far more than it is "
        f"(at most {limits.max_decompressed_bytes >> 20:,} MiB are read)"
    )
