"""The shapes of a slide with their texts, in reading order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.documents.readers.marks import CLOSE, OPEN, remove_marks
from app.documents.readers.office.ooxml import find_children, local_name
from app.documents.readers.office.pptx.bullets import Bullets
from app.documents.readers.text import collapse_spaces

_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_TITLES = frozenset({"title", "ctrTitle"})
# Shapes whose tops differ by less than this part of the slide's width are in one row.
_ROW = 40
# Hundredths of a point.
_TINY = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """A text box or a table; `placeholder` is the kind of its placeholder, "" for none."""

    placeholder: str
    text: str
    rows: tuple[tuple[str, ...], ...] = ()
    headers: int | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    left: int
    top: int
    width: int


def read_shapes(root: Any, width: int | None) -> list[Shape]:
    """The shapes with text: a title, then from top to bottom if all have a place; otherwise in the order of the file.

    Text outside of a slide of this `width` is marked.
    """
    placed: list[tuple[_Place | None, list[Shape]]] = []
    for tree in find_children(root, "cSld", "spTree"):
        for element in tree:
            shapes = list(_read_element(element))
            place = _find_place(element)
            if place and width and (place.left >= width or place.left + place.width <= 0):
                shapes = [_mark_off_page(shape) for shape in shapes]
            if shapes:
                placed.append((place, shapes))
    titles = [item for item in placed if item[1][0].placeholder in _TITLES]
    others = [(place, shapes) for place, shapes in placed if shapes[0].placeholder not in _TITLES]
    free = [(place, shapes) for place, shapes in others if place is not None]
    if width and len(free) == len(others):
        return [shape for _, shapes in [*titles, *_sort_rows(free, width // _ROW)] for shape in shapes]
    return [shape for _, shapes in placed for shape in shapes]


def _sort_rows(placed: list[tuple[_Place, list[Shape]]], height: int) -> list[tuple[_Place, list[Shape]]]:
    """From top to bottom, and from left to right where the tops differ by less than `height`."""
    rows: list[list[tuple[_Place, list[Shape]]]] = []
    for item in sorted(placed, key=lambda item: item[0].top):
        if rows and item[0].top - rows[-1][0][0].top < height:
            rows[-1].append(item)
        else:
            rows.append([item])
    return [item for row in rows for item in sorted(row, key=lambda item: item[0].left)]


def read_paragraphs(element: Any) -> Iterator[str]:
    """The paragraphs of a drawing, each on a line with its bullet or number and its level."""
    bullets = Bullets()
    for paragraph in element.iter(f"{_DRAWING}p"):
        pieces = []
        for item in paragraph.iter():
            name = local_name(item)
            if name == "t":
                pieces.append(_read_run(item))
            elif name == "br":
                pieces.append("\n")
        text = "".join(pieces)
        yield f"{bullets.mark(paragraph)}{text}" if text.strip() else text


def _read_element(element: Any) -> Iterator[Shape]:
    for shape in element.iter("{*}sp", "{*}cxnSp", "{*}tbl", "{*}pic"):
        if _is_fallback(shape):
            continue
        name = local_name(shape)
        if name == "tbl":
            yield _read_table(shape)
        elif name == "pic":
            text = next((item.get("descr", "") for item in find_children(shape, "nvPicPr", "cNvPr")), "")
            if text.strip():
                yield Shape("", remove_marks(text))
        else:
            text = "\n".join(
                line for body in find_children(shape, "txBody") for line in read_paragraphs(body)
            )
            holders = find_children(shape, "nvSpPr", "nvPr", "ph")
            if text.strip():
                yield Shape(next((holder.get("type", "body") for holder in holders), ""), text)


def _read_table(table: Any) -> Shape:
    rows: list[tuple[str, ...]] = []
    for row in find_children(table, "tr"):
        cells: list[str] = []
        for cell in find_children(row, "tc"):
            text = collapse_spaces(" ".join(read_paragraphs(cell)))
            merged = cell.get("vMerge") in {"1", "true"} and rows and len(cells) < len(rows[-1])
            cells.append(rows[-1][len(cells)] if merged and not text else text)
        rows.append(tuple(cells))
    marked = next((item.get("firstRow") for item in find_children(table, "tblPr")), None)
    return Shape("", "", tuple(rows), 1 if marked in {"1", "true"} and len(rows) > 1 else None)


def _read_run(text: Any) -> str:
    written = remove_marks(text.text or "")
    # The properties of a run are its first child.
    first = next(iter(text.getparent()))
    size = first.get("sz", "") if local_name(first) == "rPr" else ""
    tiny = size.isdecimal() and len(size) < 9 and int(size) <= _TINY
    return f"{OPEN['tiny']}{written}{CLOSE}" if tiny and written else written


def _mark_off_page(shape: Shape) -> Shape:
    def mark(text: str) -> str:
        return f"{OPEN['off_page']}{remove_marks(text)}{CLOSE}" if text else text

    rows = tuple(tuple(mark(cell) for cell in row) for row in shape.rows)
    return Shape(shape.placeholder, mark(shape.text), rows, shape.headers)


def _find_place(element: Any) -> _Place | None:
    """Where a shape is that states its own place; others inherit one from the layout."""
    for path in (("spPr", "xfrm"), ("grpSpPr", "xfrm"), ("xfrm",)):
        for transform in find_children(element, *path):
            offset = next(find_children(transform, "off"), None)
            extent = next(find_children(transform, "ext"), None)
            if offset is None or extent is None:
                continue
            try:
                return _Place(int(offset.get("x", "")), int(offset.get("y", "")), int(extent.get("cx", "")))
            except ValueError:
                return None
    return None


def _is_fallback(element: Any) -> bool:
    """Whether this is the second copy of a shape, for old programs."""
    return next(element.iterancestors("{*}Fallback"), None) is not None
