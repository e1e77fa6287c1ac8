"""PowerPoint decks: each slide becomes a page with the texts of its shapes in reading order."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from app.documents.archive import open_archive
from app.documents.ocr.access import Picture
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks
from app.documents.readers.office.numbering import BULLET, MAX_INDENT, Level, count_item
from app.documents.readers.office.ooxml import OfficePackage, read_chart, read_description, sort_rows
from app.documents.readers.pictures import PictureParts, add_recognised
from app.documents.readers.tables import write_markdown_table
from app.documents.readers.text import collapse_spaces, local_name, read_integer
from app.errors import UnreadableDocument

_KINDS = {"alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman"}
_SIGNS = {"ParenBoth": ("(", ")"), "ParenR": ("", ")"), "Plain": ("", "")}


class Bullets:
    """Counts the numbered paragraphs of one text box, in order."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def mark(self, paragraph: Any) -> str:
        """The mark before the text of the next paragraph, with the spaces of its level."""
        properties = paragraph.find("{*}pPr")
        if properties is None:
            self._numbers.clear()
            return ""
        depth = min(read_integer(properties.get("lvl", "0"), 2, 0), MAX_INDENT)
        kinds = {local_name(item): item for item in properties}
        counted = kinds.get("buAutoNum")
        if counted is not None and "buNone" not in kinds:
            return "  " * depth + count_item(self._numbers, {depth: _read_level(counted, depth)}, depth)
        self._numbers = {place: number for place, number in self._numbers.items() if place < depth}
        listed = depth > 0 or not kinds.keys().isdisjoint({"buChar", "buBlip"})
        return "  " * depth + BULLET if listed and "buNone" not in kinds else ""


def _read_level(counted: Any, depth: int) -> Level:
    kind = counted.get("type", "")
    before, after = next((signs for end, signs in _SIGNS.items() if kind.endswith(end)), ("", "."))
    start = read_integer(counted.get("startAt", "1"), 6, 1)
    return Level(_KINDS.get(kind[:7], "decimal"), f"{before}%{depth + 1}{after}", start)


_EMBED = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}embed"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_TITLES = frozenset({"title", "ctrTitle"})
# Shapes whose tops differ by less than this part of the slide's width are in one row.
_ROW = 40
# Hundredths of a point.
_TINY = 100
_NO_PICTURE = Picture()


@dataclass(frozen=True, slots=True)
class Shape:
    """A text box, a table or a picture; `placeholder` is the kind of its placeholder, "" for none."""

    placeholder: str
    text: str
    rows: tuple[tuple[str, ...], ...] = ()
    headers: int | None = None
    picture: Picture = _NO_PICTURE


@dataclass(frozen=True, slots=True)
class _Place:
    left: int
    top: int
    width: int


def read_shapes(root: Any, width: int | None, read_picture: Callable[[str], Picture]) -> list[Shape]:
    """The shapes with text: a title, then from top to bottom if all have a place; otherwise in the order of the file.
    Text outside of a slide of this `width` is marked. `read_picture` gets the id of a relation."""
    placed: list[tuple[_Place | None, list[Shape]]] = []
    for tree in root.iterfind("{*}cSld/{*}spTree"):
        for element in tree:
            shapes = list(_read_element(element, read_picture))
            place = _find_place(element)
            if place and width and (place.left >= width or place.left + place.width <= 0):
                shapes = [_mark_off_page(shape) for shape in shapes]
            if shapes:
                placed.append((place, shapes))
    titles = [shapes for _, shapes in placed if shapes[0].placeholder in _TITLES]
    others = [(place, shapes) for place, shapes in placed if shapes[0].placeholder not in _TITLES]
    free = [(place.top, place.left, shapes) for place, shapes in others if place is not None]
    ordered = [shapes for _, shapes in placed]
    if width and len(free) == len(others):
        ordered = [*titles, *sort_rows(free, width // _ROW)]
    return [shape for shapes in ordered for shape in shapes]


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


def _read_element(element: Any, read_picture: Callable[[str], Picture]) -> Iterator[Shape]:
    for shape in element.iter("{*}sp", "{*}cxnSp", "{*}tbl", "{*}pic"):
        if next(shape.iterancestors("{*}Fallback"), None) is not None:  # the second copy, for old programs
            continue
        name = local_name(shape)
        if name == "tbl":
            yield _read_table(shape)
        elif name == "pic":
            text = next(map(read_description, shape.iterfind("{*}nvPicPr/{*}cNvPr")), "")
            blip = next(shape.iter(f"{_DRAWING}blip"), None)
            picture = _NO_PICTURE if blip is None else read_picture(blip.get(_EMBED, ""))
            if text or picture != _NO_PICTURE:
                yield Shape("", text, picture=picture)
        else:
            text = "\n".join(line for body in shape.iterfind("{*}txBody") for line in read_paragraphs(body))
            holders = shape.iterfind("{*}nvSpPr/{*}nvPr/{*}ph")
            if text.strip():
                yield Shape(next((holder.get("type", "body") for holder in holders), ""), text)


def _read_table(table: Any) -> Shape:
    rows: list[tuple[str, ...]] = []
    for row in table.iterfind("{*}tr"):
        cells: list[str] = []
        for cell in row.iterfind("{*}tc"):
            text = collapse_spaces(" ".join(read_paragraphs(cell)))
            merged = cell.get("vMerge") in {"1", "true"} and rows and len(cells) < len(rows[-1])
            cells.append(rows[-1][len(cells)] if merged and not text else text)
        rows.append(tuple(cells))
    marked = next((item.get("firstRow") for item in table.iterfind("{*}tblPr")), None)
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
    return replace(shape, text=mark(shape.text), rows=rows, picture=_NO_PICTURE)


def _find_place(element: Any) -> _Place | None:
    """The place of a shape that states its own; others inherit one from the layout."""
    for path in ("{*}spPr/{*}xfrm", "{*}grpSpPr/{*}xfrm", "{*}xfrm"):
        for transform in element.iterfind(path):
            offset = transform.find("{*}off")
            extent = transform.find("{*}ext")
            if offset is None or extent is None:
                continue
            try:
                return _Place(int(offset.get("x", "")), int(offset.get("y", "")), int(extent.get("cx", "")))
            except ValueError:
                return None
    return None


_MAIN_PART = "ppt/presentation.xml"
# Date, footer and number of each slide, and the slide's picture on its notes page.
_FURNITURE = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})


def list_slides(package: OfficePackage) -> tuple[list[str], int | None]:
    """The parts of the slides in display order, without duplicates, and the width of a slide."""
    root = package.read_part(_MAIN_PART)
    if root is None:
        raise UnreadableDocument("the PPTX file is damaged: it has no list of slides")
    relations = package.read_relations(_MAIN_PART)
    slides: dict[str, None] = {}
    for item in root.iterfind("{*}sldIdLst/{*}sldId"):
        for name, value in item.attrib.items():
            if name.endswith("}id") and value in relations:
                slides[relations[value][1]] = None
    width = next((item.get("cx", "") for item in root.iterfind("{*}sldSz")), "")
    return list(slides), int(width) if width.isdecimal() and len(width) < 12 else None


class SlideWriter:
    """Writes slides as pages; `width` is the width of a slide, if it is known."""

    def __init__(self, package: OfficePackage, builder: TextBuilder, width: int | None) -> None:
        self._package = package
        self._builder = builder
        self._width = width
        self._pictures = PictureParts(package.archive, package.limits)

    def write(self, number: int, part: str) -> str:
        """Write a slide with its diagrams, charts and notes; returns its title, empty if it has none."""
        root = self._package.read_part(part)
        if root is None:
            raise UnreadableDocument("the PPTX file is damaged: a slide is missing")
        relations = self._package.read_relations(part)
        shapes = read_shapes(root, self._width, lambda key: self._pictures.read(relations.get(key, ("", ""))[1]))
        heading = next((shape for shape in shapes if shape.placeholder in _TITLES and shape.text.strip()), None)
        title = collapse_spaces(remove_marks(heading.text)) if heading else ""
        if heading and title:
            add_marked(self._builder, collapse_spaces(heading.text))
        for shape in shapes:
            if shape is not heading:
                self._write_shape(shape)
        for kind, target in relations.values():
            if kind == "notesSlide":
                notes = self._package.read_part(target)
                for shape in read_shapes(notes, None, lambda key: _NO_PICTURE) if notes is not None else ():
                    self._write_shape(shape)
            elif kind in {"diagramData", "chart"}:
                drawing = self._package.read_part(target)
                if drawing is not None:
                    add_marked(self._builder, "\n".join(filter(None, read_paragraphs(drawing))))
                    self._write_shape(Shape("", "", tuple(read_chart(drawing)), 1))
        span = self._builder.mark_page(number)
        if title:
            self._builder.mark_heading(span.start, title, 1)
        return title

    def _write_shape(self, shape: Shape) -> None:
        if shape.placeholder in _FURNITURE:
            return
        if shape.rows:
            write_markdown_table(self._builder, shape.rows, shape.headers)
        else:
            add_marked(self._builder, shape.text)
            add_recognised(self._builder, shape.picture)


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read text boxes, tables, diagrams, charts, pictures with their descriptions, and notes of a PowerPoint file.

    Hidden slides are read, because they have numbers too. Comments, and the headers, footers and numbers of slides are
    omitted.
    """
    with open_archive(io.BytesIO(data), "PPTX", limits) as archive:
        package = OfficePackage(archive, "PPTX", limits)
        slides, width = list_slides(package)
        if len(slides) > limits.max_pages:
            raise UnreadableDocument(f"the PPTX file has {len(slides):,} slides; at most {limits.max_pages:,} are read")
        builder = TextBuilder(limits)
        writer = SlideWriter(package, builder, width)
        titles = [writer.write(number, slide) for number, slide in enumerate(slides, start=1)]
        title = package.read_title() or next(filter(None, titles), None)
    return builder.finish("pptx", title=title, total_pages=len(slides))
