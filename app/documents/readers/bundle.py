"""ZIP archives: each member that is a document becomes a section with its path as the heading."""

import io
import stat
import zipfile
from collections.abc import Iterator

from app.documents.archive import open_archive, read_member
from app.documents.formats import ReaderMissing, detect_format, find_refusal
from app.documents.ocr.access import RecognitionNeeded
from app.documents.parsed import ParsedDocument, ParseLimits, is_fault_of_system
from app.documents.readers.builder import TextBuilder
from app.documents.readers.encodings import GuessingMissing, fits, guess_codec
from app.documents.readers.text import collapse_spaces
from app.errors import UnreadableDocument, UnsupportedMediaType

# Files that programs put into folders for their own use.
_DEBRIS = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
_MAX_PATH = 200
_UTF8 = 0x800
"""The flag of a name in UTF-8 (APPNOTE.TXT 6.3.10, 4.4.4)."""
_OLD = "cp437"


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the documents of an archive in the order of their paths; images without text and programs are skipped.

    The limits apply to all members together. Errors name the member's path; raises ReaderMissing, too.
    """
    builder = TextBuilder(limits)
    found = False
    with open_archive(io.BytesIO(data), "ZIP", limits) as archive:
        for path, name in sorted(_list_members(archive)):
            content = read_member(archive, name, limits)
            document = read_file(path, content or b"", limits, "in the ZIP file")
            if document is None:
                continue
            found = True
            builder.add_part(path, document)
    if not found:
        raise UnreadableDocument("the ZIP file has no member in a supported format")
    return builder.finish("zip")


def _list_members(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """The path of each member that may be a document, and its name in the archive."""
    codec = _find_codec(archive)
    for member in archive.infolist():
        linked = stat.S_ISLNK(member.external_attr >> 16)
        names = member.filename.split("/")
        hidden = any(name.startswith(".") or name.lower() in _DEBRIS for name in names)
        if not (member.is_dir() or linked or hidden):
            path = member.filename.encode(_OLD).decode(codec, errors="replace") if _is_old(member) else member.filename
            yield path, member.filename


def _is_old(member: zipfile.ZipInfo) -> bool:
    """Whether the encoding of a name is not stated; `zipfile` then reads it as cp437."""
    return not member.flag_bits & _UTF8 and not member.filename.isascii()


def _find_codec(archive: zipfile.ZipFile) -> str:
    """The encoding of the names for which none is stated: most programs write that of their system."""
    names = b"\n".join(member.filename.encode(_OLD) for member in archive.infolist() if _is_old(member))
    return "utf-8" if fits(names, "utf-8") else guess_codec(names, first=_OLD) or _OLD


def read_file(path: str, content: bytes, limits: ParseLimits, where: str) -> ParsedDocument | None:
    """The document at `path` of a file that holds others; None if it is empty or not a document.

    Raises UnreadableDocument, which names the path and `where` it is, and ReaderMissing.
    """
    if not content:
        return None
    label = f"{collapse_spaces(path)[-_MAX_PATH:]} {where}"
    try:
        kind = detect_format(content, path)
    except UnsupportedMediaType:
        if refusal := find_refusal(content):
            raise UnreadableDocument(f"{label}: {refusal}") from None
        return None
    except UnreadableDocument as error:
        raise UnreadableDocument(f"{label}: {error}") from error
    if kind.name == "zip":
        raise UnreadableDocument(f"{label} is a ZIP file itself; unpack it first")
    try:
        kind.load()
    except (ImportError, OSError) as error:
        raise ReaderMissing(kind.name) from error
    try:
        return kind.read(content, limits)
    except UnreadableDocument as error:
        if kind.image:
            return None
        raise UnreadableDocument(f"{label}: {error}") from error
    except (MemoryError, RecognitionNeeded, GuessingMissing, ReaderMissing):
        raise
    except Exception as error:
        if is_fault_of_system(error):
            raise
        raise UnreadableDocument(f"{label} is damaged: it cannot be read") from error
