"""Read ZIP containers, refusing archives that unpack to excessive sizes."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from app.documents.parsed import ParseLimits, is_fault_of_system
from app.errors import UnreadableDocument

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError)
"""What reading a damaged member raises."""
_MAX_MEMBERS = 10_000
# Deflate can reach 1,030; real documents stay below 100, except small ones.
_MAX_RATIO = 250
_RATIO_FROM = 16 << 20
# APPNOTE.TXT 6.3.10, 4.3.7, 4.3.12 and 4.3.16: signatures, lengths and offsets of the records.
_LOCAL, _LOCAL_SIZE, _LOCAL_NAME = b"PK\x03\x04", 30, 26
_ENTRY, _ENTRY_SIZE, _ENTRY_NAME = b"PK\x01\x02", 46, 28
_END, _END_SIZE, _END_DIRECTORY = b"PK\x05\x06", 22, 12
_LONGEST_COMMENT = 65_535


def is_archive(data: bytes) -> bool:
    """Whether a file begins like a ZIP file, including an empty one."""
    return data.startswith((_LOCAL, _END))


def list_names(data: bytes) -> frozenset[str]:
    """Names of the first 10,000 members; of a truncated file, the remaining ones. Cheap for hostile files too."""
    end = data.rfind(_END, max(0, len(data) - _END_SIZE - _LONGEST_COMMENT))
    names: list[str] = []
    if 0 <= end <= len(data) - _END_SIZE:
        size, position = struct.unpack_from("<II", data, end + _END_DIRECTORY)
        last = min(position + size, len(data)) - _ENTRY_SIZE
        while data.startswith(_ENTRY, position) and position <= last and len(names) < _MAX_MEMBERS:
            lengths = struct.unpack_from("<HHH", data, position + _ENTRY_NAME)
            names.append(_name(data, position + _ENTRY_SIZE, lengths[0]))
            position += _ENTRY_SIZE + sum(lengths)
    position = 0 if not names else -1
    while position >= 0 and len(names) < _MAX_MEMBERS:
        if position + _LOCAL_SIZE <= len(data):
            (length,) = struct.unpack_from("<H", data, position + _LOCAL_NAME)
            names.append(_name(data, position + _LOCAL_SIZE, length))
        position = data.find(_LOCAL, position + 1)
    return frozenset(names)


def _name(data: bytes, start: int, length: int) -> str:
    return data[start : start + length].decode("utf-8", errors="replace")


@contextmanager
def open_archive(file: BinaryIO, label: str, limits: ParseLimits) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP file that claims to stay within the limits; raises UnreadableDocument otherwise."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_claims(archive, label, limits)
            yield archive
    except DAMAGE as error:
        if is_fault_of_system(error):
            raise
        raise UnreadableDocument(f"the {label} file is damaged or incomplete") from error


def read_member(archive: zipfile.ZipFile, name: str, limits: ParseLimits) -> bytes | None:
    """A member's bytes, or None if there is no such member. The actual unpacked size is limited as well."""
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
        raise UnreadableDocument(f"the {label} file has {len(members):,} parts; at most {_MAX_MEMBERS:,} are read")
    if any(member.flag_bits & 1 for member in members):
        raise UnreadableDocument(f"the {label} file is encrypted; save it without a password")
    unpacked = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    if unpacked > limits.max_decompressed_bytes or (unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * packed):
        raise _too_large(limits)


def _too_large(limits: ParseLimits) -> UnreadableDocument:
    return UnreadableDocument(
        f"the file is too large when unpacked (at most {limits.max_decompressed_bytes >> 20:,} MiB are read)"
    )
