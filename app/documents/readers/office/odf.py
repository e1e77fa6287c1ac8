"""OpenDocument texts and presentations: headings, paragraphs, lists with their numbers, tables and slides."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks
from app.documents.readers.office.numbering import BULLET, MAX_INDENT, Level, count_item
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
_ID = "{http://www.w3.org/XML/1998/namespace}id"
_HEADING, _PARAGRAPH, _LIST = f"{_TEXT}h", f"{_TEXT}p", f"{_TEXT}list"
_ITEM, _ALONE = f"{_TEXT}list-item", f"{_TEXT}numbered-paragraph"
_OUTLINE = f"{_TEXT}outline-style"
_NUMBERED = frozenset({f"{_TEXT}list-level-style-number", f"{_TEXT}outline-level-style"})
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman", "": "none"}
# Comments, deletions, generated lists, and what repeats on each slide.
_SKIPPED = frozenset(
    {
        *(f"{_OFFICE}annotation", f"{_OFFICE}forms", f"{_TEXT}tracked-changes", f"{_TEXT}sequence-decls"),
        f"{_TEXT}number",  # a copy of what is counted
        *(f"{_TEXT}table-of-content", f"{_TEXT}alphabetical-index", f"{_TEXT}illustration-index"),
    }
)
_SPACES = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MAX_REPEAT = 50
"""Copies of a cell or a row that one element stands for: thousands at the edge of a sheet are empty."""


def parse_text(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read an OpenDocument text, with notes and text boxes, without comments and deletions."""
    builder = TextBuilder(limits)
    with _open(data, "ODT", "text", limits) as (body, styles, pictures, title):
        _Writer(builder, styles, pictures).write(body)
    return builder.finish("odt", title=title)


def parse_presentation(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read an OpenDocument presentation: a slide is a page and its title a heading; notes follow it."""
    builder = TextBuilder(limits)
    titles = []
    with _open(data, "ODP", "presentation", limits) as (body, styles, pictures, title):
        slides = [item for item in body if item.tag == f"{_DRAW}page"]
        if len(slides) > limits.max_pages:
            raise UnreadableDocument(f"the ODP file has {len(slides):,} slides; at most {limits.max_pages:,} are read")
        writer = _Writer(builder, styles, pictures)
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


@dataclass(frozen=True, slots=True)
class _Styles:
    """The names of styles of hidden text, and the levels of lists by the name of their style, from 0."""

    hidden: frozenset[str]
    lists: Mapping[str, Mapping[int, Level]]


@dataclass(frozen=True, slots=True)
class _List:
    """An open list: its style, its level, and the numbers of its last items."""

    style: str = _OUTLINE
    level: int = 0
    numbers: dict[int, int] = field(default_factory=dict)


@contextmanager
def _open(
    data: bytes, label: str, kind: str, limits: ParseLimits
) -> Iterator[tuple[Any, _Styles, PictureParts, str | None]]:
    """The body of a document, its styles, its pictures and its title."""
    with open_archive(io.BytesIO(data), label, limits) as archive:
        package = OfficePackage(archive, label, limits)
        root = package.read_part("content.xml")
        body = None if root is None else root.find(f"{_OFFICE}body/{_OFFICE}{kind}")
        if body is None:
            raise UnreadableDocument(f"the {label} file is damaged: it has no content")
        common = package.read_part("styles.xml")
        parts = [] if common is None else common.findall(f"{_OFFICE}styles")
        parts.extend(root.iterfind(f"{_OFFICE}automatic-styles"))
        yield body, _read_styles(parts), PictureParts(archive, limits), package.read_title()


def _read_styles(parts: Sequence[Any]) -> _Styles:
    """Styles of these parts of a document, of which the later ones take precedence."""
    hidden = frozenset(
        style.get(f"{_STYLE}name", "")
        for part in parts
        for style in part.iter(f"{_STYLE}style")
        for properties in style.iter(f"{_STYLE}text-properties")
        if properties.get(f"{_TEXT}display") == "none"
    )
    lists = {
        item.tag if item.tag == _OUTLINE else item.get(f"{_STYLE}name", ""): _read_levels(item)
        for part in parts
        for item in part.iter(f"{_TEXT}list-style", _OUTLINE)
    }
    return _Styles(hidden, lists)


def _read_levels(style: Any) -> dict[int, Level]:
    levels: dict[int, Level] = {}
    for item in style:
        place = read_integer(item.get(f"{_TEXT}level", ""), 1, 0) - 1
        numbered = item.tag in _NUMBERED
        kind = _FORMATS.get(item.get(f"{_STYLE}num-format", ""), "decimal") if numbered else "bullet"
        above = range(place + 1 - read_integer(item.get(f"{_TEXT}display-levels", "1"), 2, 1), place)
        shown = [number for number in above if number in levels and levels[number].kind not in {"bullet", "none"}]
        pattern = ".".join(f"%{number + 1}" for number in (*shown, place))
        before, after = (item.get(f"{_STYLE}num-{name}", "") for name in ("prefix", "suffix"))
        start = read_integer(item.get(f"{_TEXT}start-value", "1"), 6, 1)
        levels[place] = Level(kind, f"{before}{pattern}{after}", start)
    return levels


class _Writer:
    """Writes elements in their order."""

    def __init__(self, builder: TextBuilder, styles: _Styles, pictures: PictureParts) -> None:
        self._builder, self._styles, self._pictures = builder, styles, pictures
        self._outline = _List()
        self._numbers: dict[str, dict[int, int]] = {}  # of the last list with a style or an identifier
        self._alone: dict[str | int, _List] = {}  # of numbered paragraphs, by identifier, and the last one by level

    def write(self, element: Any) -> None:
        """Write an element, with all that is in it. XML is nested at most 256 levels deep."""
        if element.tag in _SKIPPED:
            return
        if element.tag == _HEADING:
            self._write_heading(element)
        elif element.tag == _PARAGRAPH:
            self._write_paragraph(element, "")
        elif element.tag in (_LIST, _ALONE):
            self._write_list(element)
        elif element.tag == f"{_TABLE}table":
            self._write_table(element)
        elif element.tag == _IMAGE:
            self._pictures.write(self._builder, element.get(_HREF, "").removeprefix("./"))
        else:
            for child in element:
                self.write(child)

    def _write_heading(self, element: Any, mark: str | None = None) -> None:
        title = self._read(element)
        level = read_integer(element.get(f"{_TEXT}outline-level", "1"), 2, 1) or 1
        if not title.strip():
            return
        if mark is None and element.get(f"{_TEXT}is-list-header") != "true":
            mark = self._count(self._outline, element, level - 1)
        self._builder.add_heading(title if mark in {None, BULLET} else f"{mark}{title}", level)

    def _write_paragraph(self, element: Any, mark: str, gap: str = "\n\n") -> None:
        text = self._read(element)
        if text.strip():
            add_marked(self._builder, mark + text, gap)
        for box in element.iter(f"{_DRAW}text-box", f"{_TEXT}note-body", _IMAGE):
            for child in [box] if box.tag == _IMAGE else box:
                self.write(child)

    def _write_list(self, element: Any) -> None:
        before = element.getprevious() if element.tag == _ALONE else None
        follows = before is not None and before.tag == _ALONE and before.find(_HEADING) is None
        gap = "\n" if follows else "\n\n"
        for item, mark, level in self._list_items(element):
            if item.tag == _HEADING:
                self._write_heading(item, mark.lstrip())
            else:
                self._write_paragraph(item, "  " * min(level, MAX_INDENT) + mark, gap)
            gap = "\n\n" if item.tag == _HEADING else "\n"

    def _list_items(self, element: Any, outer: _List | None = None) -> Iterator[tuple[Any, str, int]]:
        """The paragraphs and headings of a list, each with its mark, which is blank within an item, and its level."""
        alone = element.tag == _ALONE
        place = self._find_list(element) if alone else self._open_list(element, outer)
        for item in [element] if alone else element:
            mark = None if item.tag in (_ITEM, _ALONE) else ""
            for child in item:
                if child.tag == _LIST:
                    yield from self._list_items(child, place)
                elif child.tag in (_HEADING, _PARAGRAPH):
                    if mark is None and self._read(child).strip():
                        yield child, self._count(place, item, place.level), place.level
                        mark = "  "
                    else:
                        yield child, mark or "", place.level

    def _open_list(self, element: Any, outer: _List | None) -> _List:
        style = element.get(f"{_TEXT}style-name", outer.style if outer else "")
        if outer:
            return _List(style, outer.level + 1, outer.numbers)
        goes_on = element.get(f"{_TEXT}continue-numbering") == "true"
        numbers = self._numbers.get(element.get(f"{_TEXT}continue-list", style if goes_on else ""), {})
        self._numbers[style] = self._numbers[element.get(_ID, style)] = numbers
        return _List(style, 0, numbers)

    def _find_list(self, element: Any) -> _List:
        """The list of a numbered paragraph, as LibreOffice finds it: without an identifier, that of the last one of its
        level, if that has the same style."""
        level = (read_integer(element.get(f"{_TEXT}level", "1"), 2, 1) or 1) - 1
        style = element.get(f"{_TEXT}style-name", "")
        key = element.get(f"{_TEXT}list-id") or level
        known = self._alone.get(key)
        if known is None or (key == level and known.style != style):
            known = _List("")
        found = _List(style or (known.style if level else ""), level, known.numbers)
        self._alone[key] = self._alone[level] = found
        return found

    def _count(self, place: _List, item: Any, level: int) -> str:
        levels = self._styles.lists.get(item.get(f"{_TEXT}style-override", place.style), {})
        start = item.get(f"{_TEXT}start-value")
        first = None if start is None else read_integer(start, 6, 1)
        restart = first is not None or item.get(f"{_TEXT}restart-numbering") == "true"
        return count_item(place.numbers, levels, level, first, restart=restart)

    def _write_table(self, element: Any) -> None:
        header = element.find(f"{_TABLE}table-header-rows")
        headers = None if header is None else len(list(_list_rows(header)))
        rows = [[self._read_cell(cell) for cell in _repeat(row, "columns")] for row in _list_rows(element)]
        write_markdown_table(self._builder, rows, headers)
        for image in element.iter(_IMAGE):
            self.write(image)

    def _read_cell(self, cell: Any) -> str:
        return collapse_spaces(" ".join(f"{mark}{self._read(item)}" for item, mark in self._list_paragraphs(cell)))

    def _list_paragraphs(self, element: Any) -> Iterator[tuple[Any, str]]:
        """The paragraphs in an element, with those of its notes and text boxes, each with its mark in a list."""
        for child in element:
            if child.tag in (_LIST, _ALONE):
                for item, mark, _ in self._list_items(child):
                    yield item, mark
                    yield from self._list_paragraphs(item)
            elif child.tag not in _SKIPPED:
                if child.tag in (_HEADING, _PARAGRAPH):
                    yield child, ""
                yield from self._list_paragraphs(child)

    def _read(self, element: Any) -> str:
        """The text of a paragraph, without that of boxes and notes in it."""
        text = "".join(self._list_pieces(element))
        style = element.get(f"{_TEXT}style-name")
        return f"{OPEN['hidden_run']}{text}{CLOSE}" if style in self._styles.hidden and text.strip() else text

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
