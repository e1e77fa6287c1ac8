"""HTML: the text that a reader would read, without navigation and other page elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lxml import etree

from app.documents.ocr.access import Picture
from app.documents.parsed import HiddenReason, ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks, remove_references
from app.documents.readers.html.furniture import Furniture, is_content, is_unseen, points_to_heading, write_between
from app.documents.readers.html.visibility import StyleSheets, find_reason
from app.documents.readers.pictures import add_recognised
from app.documents.readers.tables import write_markdown_table
from app.documents.readers.text import build_tree, clean_text, collapse_spaces, fence_code, read_integer
from app.errors import UnreadableDocument

_MAX_DEPTH = 500
"""libxml2 omits elements that are nested deeper than 2,048."""


def is_cut(parser: Any) -> bool:
    """Whether the parser omitted a part of the page because it is nested too deeply."""
    return any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log)


class FlatTree:
    """A target of `etree.HTMLParser`, which calls its methods: elements beyond a depth become siblings."""

    def __init__(self) -> None:
        self._tree = etree.TreeBuilder()
        self._open: list[str] = []
        self._deep: list[bool] = []  # for each element that is nested too deeply, whether it is hidden
        self._next: tuple[str, Mapping[str, str]] | None = None  # begins with its first text

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin an element. One that is nested too deeply ends its parent, and inherits whether it is hidden."""
        own = {name: value for name, value in attributes.items() if ":" not in name}
        if len(self._open) < _MAX_DEPTH:
            self._open.append(tag)
            self._tree.start(tag, own)
            return
        hidden = bool(self._deep and self._deep[-1])
        self._deep.append(hidden or find_reason(etree.Element("div", own), styled=True) is not None)
        self._next = (tag, {"hidden": ""} if hidden else own)
        if tag == "img":
            self._begin_next()

    def end(self, tag: str) -> None:
        """End an element."""
        if self._deep:
            self._deep.pop()
            self._next = ("div", {"hidden": ""} if self._deep and self._deep[-1] else {})
        elif self._open:
            self._next = None
            self._tree.end(self._open.pop())

    def data(self, text: str) -> None:
        """Add text to the open element."""
        self._begin_next()
        self._tree.data(text)

    def close(self) -> Any:
        """The root element."""
        while self._open:
            self._tree.end(self._open.pop())
        return self._tree.close()

    def _begin_next(self) -> None:
        if self._next is not None:
            tag, attributes = self._next
            self._next = None
            self._tree.end(self._open.pop())
            self._open.append(tag)
            self._tree.start(tag, dict(attributes))


# Cells that continue in the rows below; a page of hostile spans would multiply its text.
_MAX_OPEN = 50
_MAX_SPAN = 100
_CELLS = frozenset({"td", "th"})


def read_rows(table: Any, read_cell: Callable[[Any], str]) -> tuple[list[list[str]], int | None]:
    """The rows, and the number of header rows; None if the table marks none."""
    rows: list[list[str]] = []
    headers = 0
    below: dict[int, tuple[int, str]] = {}  # by column: the rows that a cell still covers, and its text
    for row in table.iter("tr"):
        elements = [cell for cell in row if cell.tag in _CELLS]
        cells, below = _place(elements, below, read_cell)
        heads = bool(elements) and all(cell.tag == "th" for cell in elements)
        within = row.getparent() is not None and row.getparent().tag == "thead"
        if (heads or within) and headers == len(rows) and any(cells):
            headers += 1
        if any(cells):
            rows.append(cells)
    if headers and headers == len(rows):
        headers = 1
    return rows, headers or None


def _place(
    elements: Sequence[Any], below: dict[int, tuple[int, str]], read_cell: Callable[[Any], str]
) -> tuple[list[str], dict[int, tuple[int, str]]]:
    """The cells of a row, among those that continue from above, and the cells that continue below."""
    cells: list[str] = []
    following: dict[int, tuple[int, str]] = {}

    def fill() -> None:
        while len(cells) in below:
            rows, text = below[len(cells)]
            if rows > 1:
                following[len(cells)] = (rows - 1, text)
            cells.append(text)

    for element in elements:
        fill()
        text = read_cell(element)
        rows = _span(element, "rowspan")
        if rows > 1 and len(following) < _MAX_OPEN:
            following[len(cells)] = (rows - 1, text)
        cells.append(text)
        cells.extend([text if element.tag == "th" else ""] * (_span(element, "colspan") - 1))
    fill()
    return cells, following


def _span(element: Any, name: str) -> int:
    return max(1, min(read_integer(element.get(name, "1").strip(), 5, 1), _MAX_SPAN))


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LINE_TAGS = "li tr dt dd br option figcaption caption summary"
_LINES = frozenset(_LINE_TAGS.split())
_BLOCK_TAGS = (
    "address article aside blockquote body center details div dl fieldset figure footer form header hr html "
    "main menu nav ol p pre section table tbody tfoot thead ul"
)
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_LISTS = frozenset({"ul", "ol", "menu"})
# Tables with one of these are layout: their cells are read one after the other.
_LAYOUT = (*_HEADINGS, "pre", "form", "article", "section", "p")
_NOTICES = frozenset({"note", "tip", "hint", "warning", "caution", "important", "danger", "admonition"})
_MAX_PARAGRAPHS = 2
_MAX_NESTING = 8


ReadPicture = Callable[[str], Picture]


class PageReader:
    """Writes the text of a page; without `furniture`, including menus, banners and footers. `read_picture` gets the
    address of a picture."""

    def __init__(self, root: Any, limits: ParseLimits, furniture: Furniture | None, read_picture: ReadPicture) -> None:
        self._root = root
        self._builder = TextBuilder(limits)
        self._furniture = furniture
        self._read_picture = read_picture
        self._pictures: list[Any] = []  # since the last line
        self._styled = next(root.iter("style", "link"), None) is not None
        self._sheets = StyleSheets(root)
        self._layout = _find_layout_tables(root)
        self._line: list[str] = []
        self._gap = ""
        self._heading: str | None = None
        self._preformatted = 0
        self._contents = 0  # number of open elements that mark the content
        self._lists: list[int | None] = []  # for each open list: the next number, None for bullets
        self._marker = ""
        self._hidden: Any = None  # the outermost open element that is not seen, and the mark that opens its text
        self._mark = ""
        self._tight = False  # nothing is written yet of an item, whose text follows its marker

    def read(self, top: Any) -> ParsedDocument:
        """Read the element `top`, which is the root or the main content."""
        walk = etree.iterwalk(top, events=("start", "end"))
        skipped = None
        for event, element in walk:
            if event == "start":
                if self._is_skipped(element):
                    skipped = element
                    walk.skip_subtree()
                    self._break_around(element.tag)
                elif self._open(element):
                    walk.skip_subtree()
                continue
            if element is skipped:
                skipped = None
            else:
                self._close(element)
            if element is not top:
                self._line.append(element.tail or "")
        self._flush()
        title = self._root.findtext(".//head/title") or self._root.findtext(".//title")
        return self._builder.finish("html", title=remove_marks(title or ""))

    def _is_skipped(self, element: Any) -> bool:
        if is_unseen(element) or (self._heading is not None and points_to_heading(element)):
            return True
        return self._furniture is not None and self._furniture.surrounds(element, within=self._contents > 0)

    def _open(self, element: Any) -> bool:
        """Begin an element; returns whether it is read completely."""
        tag = element.tag
        if tag in _HEADINGS and self._heading is None:
            self._flush()
            self._heading = tag
        self._break_around(tag)
        if self._hidden is None and (reason := self._find_reason(element)):
            self._hidden, self._mark = element, OPEN[reason]
            self._line.append(self._mark)
        if tag == "table" and element not in self._layout and self._heading is None:
            if (caption := element.find("caption")) is not None:
                self._line.append(self._read_cell(caption))
                self._flush()
            rows, headers = read_rows(element, self._read_cell)
            write_markdown_table(self._builder, rows, headers, self._take_gap())
            self._pictures += element.iter("img")
            self._write_pictures()
            return True
        if tag in _LISTS:
            self._lists.append(read_integer(element.get("start", "1"), 6, 1) if tag == "ol" else None)
        elif tag == "li":
            number = self._lists[-1] if self._lists else None
            self._marker = "- " if number is None else f"{number}. "
            if number is not None:
                self._lists[-1] = number + 1
        elif tag == "dt":
            self._gap = "\n\n"
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "img":
            self._line.append(_describe(element))
            self._pictures.append(element)
        self._tight = tag in {"li", "dd"} or (self._tight and tag not in _LISTS)
        self._contents += is_content(element)
        self._line.append(write_between(element) + (element.text or ""))
        return False

    def _close(self, element: Any) -> None:
        tag = element.tag
        self._contents -= is_content(element)
        if tag == self._heading:
            self._write_heading(_HEADINGS[tag])
        elif tag == "pre":
            self._flush()
            self._preformatted -= 1
        if element is self._hidden:
            self._line.append(CLOSE)
            self._hidden = None
        if tag in _LISTS and self._lists:
            self._flush()
            self._lists.pop()
        self._break_around(tag)
        if tag == "li":
            self._marker = ""

    def _find_reason(self, element: Any) -> HiddenReason | None:
        return find_reason(element, styled=self._styled, declared=self._sheets.find(element))

    def _write_heading(self, level: int) -> None:
        self._builder.add_heading(collapse_spaces("".join(self._line)).rstrip("¶ "), level)
        self._line, self._heading = [], None
        if self._hidden is not None:
            self._line.append(self._mark)
        self._gap, self._marker = "\n\n", ""

    def _break_around(self, tag: str) -> None:
        if not (tag in _BLOCKS or tag in _LINES or tag in {"td", "th"}):
            return
        if self._preformatted:
            if self._line and not "".join(self._line[-2:]).endswith("\n"):
                self._line.append("\n")
        elif self._heading:
            self._line.append(" ")
        else:
            self._flush()
            if not self._tight:
                close = tag in {"li", "dt", "dd", "tr", "br", "option"} or (tag in _LISTS and bool(self._lists))
                self._gap = max(self._gap, "\n" if close else "\n\n")

    def _take_gap(self) -> str:
        gap, self._gap = self._gap or "\n\n", ""
        return gap

    def _flush(self) -> None:
        raw, self._line = "".join(self._line), []
        if self._hidden is not None:
            raw += CLOSE
            self._line.append(self._mark)
        text = clean_text(raw).strip("\n") if self._preformatted else collapse_spaces(raw)
        if remove_marks(text).strip():
            self._write_line(text)
        self._write_pictures()

    def _write_line(self, text: str) -> None:
        if self._preformatted and "\n" in text:
            text = fence_code(text)
        elif self._lists:
            indent = "  " * min(len(self._lists) - 1, _MAX_NESTING)
            text = f"{indent}{self._marker or '  '}{text}"
        else:
            text = self._marker + text
        add_marked(self._builder, text, self._take_gap())
        self._marker, self._tight = "", False

    def _write_pictures(self) -> None:
        pictures, self._pictures = self._pictures, []
        for element in pictures if self._hidden is None else ():
            add_recognised(self._builder, self._read_picture(element.get("src", "")))

    def _read_cell(self, cell: Any) -> str:
        """The text of a cell on one line."""
        walk = etree.iterwalk(cell, events=("start", "end"))
        pieces = [self._mark] if self._hidden is not None else []
        hidden = None
        for event, element in walk:
            if event == "end":
                if element is hidden:
                    pieces.append(CLOSE)
                    hidden = None
                if element is not cell:
                    pieces.append(" " if element.tag in _BLOCKS or element.tag in _LINES else "")
                    pieces.append(element.tail or "")
            elif self._is_skipped(element):
                walk.skip_subtree()
            else:
                if self._hidden is None and hidden is None and (reason := self._find_reason(element)):
                    pieces.append(OPEN[reason])
                    hidden = element
                pieces.append(" " if element.tag in _BLOCKS or element.tag in _LINES else "")
                pieces.append(write_between(element))
                pieces.append(_describe(element) if element.tag == "img" else element.text or "")
        if self._hidden is not None:
            pieces.append(CLOSE)
        text = collapse_spaces("".join(pieces))
        return text if remove_marks(text).strip() else ""


def _find_layout_tables(root: Any) -> set[Any]:
    """Tables that arrange blocks of text; each stays in the set, so that it is recognised later."""
    layout = set()
    open_tables: list[Any] = []
    paragraphs = 0
    for event, element in etree.iterwalk(root, events=("start", "end"), tag=("table", "td", *_LAYOUT)):
        if element.tag == "table":
            if event == "end":
                open_tables.pop()
                continue
            if open_tables:
                layout.add(open_tables[-1])
            open_tables.append(element)
            if _is_notice(element):
                layout.add(element)
        elif event == "end" or not open_tables:
            continue
        elif element.tag == "td":
            paragraphs = 0
        elif element.tag == "p":
            paragraphs += 1
            if paragraphs > _MAX_PARAGRAPHS:
                layout.add(open_tables[-1])
        else:
            layout.add(open_tables[-1])
    return layout


def _is_notice(table: Any) -> bool:
    """Whether a table sets a notice with its picture, as DocBook does."""
    around = table.getparent()
    names = around.get("class", "") if around is not None else ""
    return not _NOTICES.isdisjoint(names.lower().split()) and table.get("border", "0") == "0"


def _describe(image: Any) -> str:
    """The text that represents a picture."""
    return "" if image.get("role") == "presentation" else f" {image.get('alt', '')} "


# A page with less text without its menus and banners is read with them, if that gives several times as much.
_SHORT = 200
_TIMES = 5


def parse(
    text: str, limits: ParseLimits, read_picture: ReadPicture = lambda address: Picture(), *, whole: bool = False
) -> ParsedDocument:
    """The main content of a page, or all of it where that is not marked, or `whole` is true, as for books and mails.

    Nothing is fetched or expanded; pictures that are parts of the same file are read by `read_picture`.
    """
    encoded = remove_references(clean_text(text)).encode("utf-8", errors="replace")
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    try:
        root = build_tree(encoded, parser, "no elements")
        if is_cut(parser):
            flat = etree.HTMLParser(encoding="utf-8", target=FlatTree(), huge_tree=True)
            root = build_tree(encoded, flat, "no elements")
    except UnreadableDocument:  # nothing but comments, as an empty part of a mail or a blank page of a book
        return TextBuilder(limits).finish("html")
    if whole:
        return PageReader(root, limits, None, read_picture).read(root)
    furniture = Furniture()
    main = furniture.find_main(root)
    document = PageReader(root, limits, furniture, read_picture).read(main if main is not None else root)
    if main is None and len(document.text) < _SHORT:
        # Some pages wrap all of their content in elements that are navigation elsewhere.
        complete = PageReader(root, limits, None, read_picture).read(root)
        if len(complete.text) > _TIMES * len(document.text):
            return complete
    return document
