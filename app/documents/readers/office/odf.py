"""OpenDocument texts and presentations: headings, paragraphs, lists, tables and slides."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks
from app.documents.readers.office.ooxml import OfficePackage, sort_rows
from app.documents.readers.pictures import PictureParts
from app.documents.readers.tables import write_markdown_table
from app.documents.readers.text import collapse_spaces, local_name, read_integer
from app.errors import UnreadableDocument

_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_LENGTH = re.compile(r"(-?\d{1,9}(?:\.\d{1,9})?)(cm|mm|in|pt)")
_UNITS = {"cm": 10, "mm": 1, "in": 25.4, "pt": 25.4 / 72}
_ROW = 7
"""Millimetres by which the tops of shapes in one row differ at most."""
_SHOW = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_IMAGE, _HREF = f"{_DRAW}image", "{http://www.w3.org/1999/xlink}href"
# Comments, deletions, generated lists, and what repeats on each slide.
_SKIPPED = frozenset(
    {
        *(f"{_OFFICE}annotation", f"{_OFFICE}forms", f"{_TEXT}tracked-changes", f"{_TEXT}sequence-decls"),
        *(f"{_TEXT}table-of-content", f"{_TEXT}alphabetical-index", f"{_TEXT}illustration-index"),
    }
)
_SPACES = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MAX_REPEAT = 50
"""Copies of a cell or a row that one element stands for: thousands at the edge of a sheet are empty."""


def parse_text(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read an OpenDocument text, with notes and text boxes, without comments and deletions."""
    builder = TextBuilder(limits)
    with _open(data, "ODT", "text", limits) as (body, hidden, pictures, title):
        _Writer(builder, hidden, pictures).write(body)
    return builder.finish("odt", title=title)


def parse_presentation(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read an OpenDocument presentation: a slide is a page and its title a heading; notes follow it."""
    builder = TextBuilder(limits)
    titles = []
    with _open(data, "ODP", "presentation", limits) as (body, hidden, pictures, title):
        slides = [item for item in body if item.tag == f"{_DRAW}page"]
        if len(slides) > limits.max_pages:
            raise UnreadableDocument(f"the ODP file has {len(slides):,} slides; at most {limits.max_pages:,} are read")
        writer = _Writer(builder, hidden, pictures)
        for number, slide in enumerate(slides, 1):
            heading = next((item for item in slide if item.get(f"{_SHOW}class") == "title"), None)
            name = "" if heading is None else collapse_spaces(remove_marks(" ".join(heading.itertext())))
            if name:
                builder.add(name)
            for item in _sort_shapes([item for item in slide if item is not heading]):
                writer.write(item)
            span = builder.mark_page(number)
            if name:
                builder.mark_heading(span.start, name, 1)
            titles.append(name)
    return builder.finish("odp", title=title or next(filter(None, titles), None), total_pages=len(slides))


def _sort_shapes(items: Sequence[Any]) -> list[Any]:
    """Shapes from top to bottom if all state their place, then what else belongs to a slide, such as its notes."""
    shapes = [item for item in items if str(item.tag).startswith(_DRAW)]
    places = [tuple(_read_length(item.get(f"{_SVG}{name}", "")) for name in "yx") for item in shapes]
    if any(None in place for place in places):
        return list(items)
    placed = ((top or 0, left or 0, item) for (top, left), item in zip(places, shapes, strict=True))
    return [*sort_rows(placed, _ROW), *(item for item in items if item not in shapes)]


def _read_length(text: str) -> float | None:
    match = _LENGTH.fullmatch(text)
    return float(match.group(1)) * _UNITS[match.group(2)] if match else None


@contextmanager
def _open(
    data: bytes, label: str, kind: str, limits: ParseLimits
) -> Iterator[tuple[Any, frozenset[str], PictureParts, str | None]]:
    """The body of a document, the names of its styles of hidden text, its pictures and its title."""
    with open_archive(io.BytesIO(data), label, limits) as archive:
        package = OfficePackage(archive, label, limits)
        root = package.read_part("content.xml")
        body = None if root is None else root.find(f"{_OFFICE}body/{_OFFICE}{kind}")
        if body is None:
            raise UnreadableDocument(f"the {label} file is damaged: it has no content")
        hidden = frozenset(
            style.get(f"{_STYLE}name", "")
            for style in root.iter(f"{_STYLE}style")
            for properties in style.iter(f"{_STYLE}text-properties")
            if properties.get(f"{_TEXT}display") == "none"
        )
        yield body, hidden, PictureParts(archive, limits), package.read_title()


class _Writer:
    """Writes elements in their order."""

    def __init__(self, builder: TextBuilder, hidden: frozenset[str], pictures: PictureParts) -> None:
        self._builder, self._hidden, self._pictures = builder, hidden, pictures

    def write(self, element: Any) -> None:
        """Write an element, with all that is in it. XML is nested at most 256 levels deep."""
        if element.tag in _SKIPPED:
            return
        if element.tag == f"{_TEXT}h":
            self._write_heading(element)
        elif element.tag == f"{_TEXT}p":
            self._write_paragraph(element, "")
        elif element.tag == f"{_TEXT}list":
            self._write_list(element, "")
        elif element.tag == f"{_TABLE}table":
            self._write_table(element)
        elif element.tag == _IMAGE:
            self._pictures.write(self._builder, element.get(_HREF, "").removeprefix("./"))
        else:
            for child in element:
                self.write(child)

    def _write_heading(self, element: Any) -> None:
        title = collapse_spaces(remove_marks(self._read(element)))
        if title:
            self._builder.add_heading(title, read_integer(element.get(f"{_TEXT}outline-level", "1"), 2, 1) or 1)

    def _write_paragraph(self, element: Any, mark: str, gap: str = "\n\n") -> None:
        text = self._read(element)
        if text.strip():
            add_marked(self._builder, mark + text, gap)
        for box in element.iter(f"{_DRAW}text-box", f"{_TEXT}note-body", _IMAGE):
            for child in [box] if box.tag == _IMAGE else box:
                self.write(child)

    def _write_list(self, element: Any, indent: str) -> None:
        gap = "\n" if indent else "\n\n"
        for item in element:
            mark = f"{indent}- "
            for child in item:
                if child.tag == f"{_TEXT}list":
                    self._write_list(child, f"{indent}  ")
                elif child.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    self._write_paragraph(child, mark, gap)
                    mark, gap = f"{indent}  ", "\n"

    def _write_table(self, element: Any) -> None:
        header = element.find(f"{_TABLE}table-header-rows")
        headers = None if header is None else len(list(_list_rows(header)))
        rows = [[self._read_cell(cell) for cell in _repeat(row, "columns")] for row in _list_rows(element)]
        write_markdown_table(self._builder, rows, headers)
        for image in element.iter(_IMAGE):
            self.write(image)

    def _read_cell(self, cell: Any) -> str:
        return collapse_spaces(" ".join(self._read(text) for text in cell.iter(f"{_TEXT}p", f"{_TEXT}h")))

    def _read(self, element: Any) -> str:
        """The text of a paragraph, without that of boxes and notes in it."""
        text = "".join(self._list_pieces(element))
        style = element.get(f"{_TEXT}style-name")
        return f"{OPEN['hidden_run']}{text}{CLOSE}" if style in self._hidden and text.strip() else text

    def _list_pieces(self, element: Any) -> Iterator[str]:
        yield remove_marks(element.text or "")
        for child in element:
            if child.tag == f"{_TEXT}s":
                yield " " * min(read_integer(child.get(f"{_TEXT}c", "1"), 3, 1), _MAX_REPEAT)
            elif child.tag in _SPACES:
                yield _SPACES[child.tag]
            elif child.tag == f"{_TEXT}span":
                yield self._read(child)
            elif child.tag not in _SKIPPED and local_name(child) not in {"note", "text-box"}:
                yield from self._list_pieces(child)
            yield remove_marks(child.tail or "")


def _list_rows(table: Any) -> Iterator[Any]:
    for item in table:
        if item.tag == f"{_TABLE}table-row":
            yield from [item] * _count(item, "rows")
        elif local_name(item) in {"table-header-rows", "table-rows", "table-row-group"}:
            yield from _list_rows(item)


def _repeat(row: Any, kind: str) -> Iterator[Any]:
    for cell in row:
        if local_name(cell) in {"table-cell", "covered-table-cell"}:
            yield from [cell] * _count(cell, kind)


def _count(element: Any, kind: str) -> int:
    times = read_integer(element.get(f"{_TABLE}number-{kind}-repeated", "1"), 9, 1)
    return min(max(1, times), _MAX_REPEAT)
