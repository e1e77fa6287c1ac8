"""EPUB: the chapters in reading order, each read as a page of HTML."""

import io
import posixpath
from functools import cache
from typing import Any
from urllib.parse import unquote

from app.documents.archive import open_archive, read_member
from app.documents.ocr.access import Picture
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.encodings import decode, find_charset
from app.documents.readers.html import page
from app.documents.readers.office.ooxml import OfficePackage
from app.documents.readers.pictures import PictureParts
from app.errors import UnreadableDocument

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html"})


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the chapters of an EPUB (2 and 3), without its table of contents. Raises UnreadableDocument for a book
    with protection."""
    builder = TextBuilder(limits)
    with open_archive(io.BytesIO(data), "EPUB", limits) as archive:
        package = OfficePackage(archive, "EPUB", limits)
        if _is_protected(package):
            raise UnreadableDocument("the EPUB is protected; save it without protection")
        place = _find_package(package)
        root = package.read_part(place)
        if root is None:
            raise UnreadableDocument("the EPUB file is damaged: it has no list of chapters")
        title = next((item.text for item in root.iter("{*}title") if item.text), None)
        pictures = PictureParts(archive, limits)
        for chapter in _list_chapters(root, posixpath.dirname(place)):
            folder = posixpath.dirname(chapter)

            @cache
            def read_picture(address: str, folder: str = folder) -> Picture:
                return pictures.read(_resolve(folder, address))

            content = read_member(archive, chapter, limits)
            if content:
                text = decode(content, find_charset(content)).text
                builder.add_document(page.parse(text, limits, read_picture, whole=True), "\n\n\n")
    return builder.finish("epub", title=title)


def _is_protected(package: OfficePackage) -> bool:
    """Whether more than fonts is encrypted."""
    root = package.read_part(_ENCRYPTION)
    places = [] if root is None else [item.get("URI", "") for item in root.iter("{*}CipherReference")]
    return any(place.lower().endswith((".xhtml", ".html", ".htm")) for place in places)


def _find_package(package: OfficePackage) -> str:
    root = package.read_part(_CONTAINER)
    found = [] if root is None else [item.get("full-path", "") for item in root.iter("{*}rootfile")]
    return found[0] if found else "content.opf"


def _list_chapters(root: Any, folder: str) -> list[str]:
    items = {item.get("id"): item for item in root.iter("{*}item")}
    chapters: dict[str, None] = {}
    for reference in root.iter("{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _PAGES or "nav" in (item.get("properties") or "").split():
            continue
        if target := item.get("href"):
            chapters[_resolve(folder, target)] = None
    return list(chapters)


def _resolve(folder: str, address: str) -> str:
    """The name of the member to which an address in a folder refers."""
    return posixpath.normpath(posixpath.join(folder, unquote(address.split("#")[0])))
