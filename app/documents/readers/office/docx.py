"""Word documents: paragraphs and tables in order, with their styles, numbers and bullets."""

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from lxml import etree

from app.documents.archive import open_archive
from app.documents.parsed import HiddenReason, ParsedDocument, ParseLimits
from app.documents.readers.builder import CLOSE, OPEN, TextBuilder, add_marked, remove_marks
from app.documents.readers.office.numbering import BULLET, MAX_INDENT, Level, count_item
from app.documents.readers.office.ooxml import OfficePackage, read_chart, read_description
from app.documents.readers.pictures import PictureParts
from app.documents.readers.tables import write_markdown_table
from app.documents.readers.text import collapse_spaces, local_name, read_integer
from app.errors import UnreadableDocument

# Names of heading styles: Word writes the English one; other programs write that of the user's language.
_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|encabezado|titolo|intestazione|kop|rubrik|overskrift|otsikko|nagłówek|"
    r"nadpis|naslov|címsor|titlu|başlık|заголовок|επικεφαλίδα|标题|標題|見出し|제목)[ \u00a0]?([1-9])$"
)
_TITLES = "title titel titre título titulo titolo tytuł название 标题 標題 表題 제목"
_TITLE = frozenset(_TITLES.split())
_CONTENTS = re.compile(r"(?:toc|verzeichnis|tm|tdc|sommario|inhopg|spis treści|содержание) ?\d$|contents \d$")
_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Style:
    """The effect of a style on a paragraph or run; None: not stated.

    Attributes:
        level: of a heading, from 1; 0 for the document's title.
        number: the id of its numbering, and the level in it.
        hidden: whether its text is vanished.
        contents: whether it is a line of a table of contents.
    """

    level: int | None = None
    number: tuple[str, int | None] | None = None
    hidden: bool | None = None
    contents: bool = False


def read_styles(root: Any) -> dict[str, Style]:
    """The styles by id, each with the properties inherited through `basedOn`."""
    own: dict[str, Style] = {}
    parents: dict[str, str] = {}
    for style in root.iterfind("{*}style") if root is not None else ():
        key = read_value(style, "styleId")
        own[key] = _read_style(style)
        parents[key] = read_child(style, "basedOn")
    return {key: _inherit(key, own, parents) for key in own}


def read_value(element: Any, name: str = "val") -> str:
    """An attribute of an element, "" if it has none."""
    return next((str(value) for key, value in element.attrib.items() if key.endswith(f"}}{name}")), "")


def read_child(element: Any, name: str) -> str:
    """The attribute `val` of the first child with this name, "" if there is none."""
    return next(map(read_value, element.iterfind(f"{{*}}{name}")), "")


def is_on(element: Any) -> bool:
    """The value of a switch, which is on when no value is stated."""
    return read_value(element) not in {"0", "false", "off"}


def read_level(element: Any) -> int | None:
    """The heading level of `outlineLvl`; None for body text."""
    value = read_value(element)
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else None


def read_number(properties: Any) -> tuple[str, int | None] | None:
    """The numbering in `numPr`: its id, and the level in it if that is stated."""
    number = next((read_value(item) for item in properties.iterfind("{*}numId")), None)
    level = read_child(properties, "ilvl")
    if number is None:
        return None
    return number, int(level) if level.isdecimal() and len(level) < 3 else None


def _read_style(style: Any) -> Style:
    name = read_child(style, "name").lower()
    heading = _HEADING.match(name)
    level = next((read_level(item) for item in style.iterfind("{*}pPr/{*}outlineLvl")), None)
    if name in _TITLE:
        level = 0
    elif heading:
        level = int(heading.group(1))
    return Style(
        level,
        next((read_number(item) for item in style.iterfind("{*}pPr/{*}numPr")), None),
        next((is_on(item) for item in style.iterfind("{*}rPr/{*}vanish")), None),
        _CONTENTS.match(name) is not None,
    )


def _inherit(key: str, own: Mapping[str, Style], parents: Mapping[str, str]) -> Style:
    style, ancestor = own[key], parents.get(key, "")
    for _ in range(_DEPTH):
        above = own.get(ancestor)
        if above is None:
            break
        style = replace(
            style,
            level=above.level if style.level is None else style.level,
            number=above.number if style.number is None else style.number,
            hidden=above.hidden if style.hidden is None else style.hidden,
        )
        ancestor = parents.get(ancestor, "")
    return style


class Numbering:
    """Counts the numbered paragraphs of one document, in order."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, Level]] = {}
        self._abstract: dict[str, str] = {}
        self._restarted: dict[str, dict[int, int]] = {}
        self._counted: dict[str, dict[int, int]] = {}  # by series: how far each level is
        for item in root.iterfind("{*}abstractNum") if root is not None else ():
            self._levels[read_value(item, "abstractNumId")] = dict(_read_levels(item))
        for item in root.iterfind("{*}num") if root is not None else ():
            key = read_value(item, "numId")
            self._abstract[key] = read_child(item, "abstractNumId")
            if starts := dict(_read_starts(item)):
                self._restarted[key] = starts

    def count(self, number: str, level: int | None, style: str) -> tuple[str, int] | None:
        """The mark before the next paragraph of a numbering, and its level; None if it is not numbered."""
        if number == "0":
            return None
        levels = self._levels.get(self._abstract.get(number, ""), {})
        if level is None:
            level = next((place for place, item in levels.items() if style and item.style == style), 0)
        restarted = self._restarted.get(number, {})
        series = number if restarted else f"abstract {self._abstract.get(number)}"
        return count_item(self._counted.setdefault(series, {}), levels, level, restarted.get(level)), level


def _read_levels(item: Any) -> Iterator[tuple[int, Level]]:
    for level in item.iterfind("{*}lvl"):
        kind, start = read_child(level, "numFmt") or "decimal", read_integer(read_child(level, "start"), 6, 1)
        shown = Level(kind, read_child(level, "lvlText"), start, read_child(level, "pStyle"))
        yield read_integer(read_value(level, "ilvl"), 1, -1), shown


def _read_starts(item: Any) -> Iterator[tuple[int, int]]:
    for level in item.iterfind("{*}lvlOverride"):
        if level.find("{*}startOverride") is not None:
            start = read_integer(read_child(level, "startOverride"), 6, 1)
            yield read_integer(read_value(level, "ilvl"), 1, -1), start


# Text that was moved away, and the second copy of a text box for old programs.
_SKIPPED = frozenset({"moveFrom", "Fallback", "sectPr", "pPrChange", "rPrChange", "tblGridChange", "tblPrChange"})
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}
_DRAWN = {"chart": "id", "blip": "embed", "imagedata": "id"}
"""Elements of charts and pictures, with the attribute that has the id of their relation."""
# Half points.
_TINY = 2
_MAX_SPAN = 60
_PLAIN = Style()


@dataclass(slots=True)
class _Paragraph:
    text: list[str] = field(default_factory=list)
    style: str = ""
    level: int | None = None
    number: tuple[str, int | None] | None = None
    shaded: bool = False


@dataclass(slots=True)
class _Table:
    """An open table; `plain` has one column, and its cells are paragraphs like others."""

    plain: bool
    rows: list[list[str]] = field(default_factory=list)
    row: list[str] = field(default_factory=list)
    headers: int = 0
    merged: bool = False
    span: int = 1


class BodyReader:
    """Writes the text of a document's body; `notes` by kind and id; `drawings`, by the id of their relation, write a
    chart or a picture."""

    def __init__(
        self,
        builder: TextBuilder,
        styles: Mapping[str, Style],
        numbering: Numbering,
        notes: Mapping[tuple[str, str], str],
        drawings: Mapping[str, Callable[[], object]],
    ) -> None:
        self.title: str | None = None
        self._builder = builder
        self._styles = styles
        self._numbering = numbering
        self._notes = dict(notes)
        self._drawings = dict(drawings)
        self._drawn: list[Callable[[], object]] = []  # since the last paragraph
        self._called: list[str] = []  # notes to which the text since the last paragraph refers
        self._calls = 0
        self._paragraphs: list[_Paragraph] = []
        self._tables: list[_Table] = []
        self._listed = False
        self._boxes = 0  # open text boxes, whose background is unknown
        self._background = False

    def read(self, root: Any) -> None:
        """Read the main part."""
        self._background = root.find("{*}background") is not None
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            name = local_name(element)
            if event == "start":
                if name in _SKIPPED:
                    walk.skip_subtree()
                else:
                    self._open(name, element)
            else:
                self._close(name)
        self._called += self._notes.values()
        self._write_additions()

    def _open(self, name: str, element: Any) -> None:
        if name == "p":
            self._paragraphs.append(_Paragraph())
        elif name == "tbl":
            columns = sum(1 for _ in element.iterfind("{*}tblGrid/{*}gridCol"))
            self._tables.append(_Table(plain=columns == 1))
        elif name == "txbxContent":
            self._boxes += 1
        elif self._tables and name in {"tr", "tc", "tblHeader", "gridSpan", "vMerge"}:
            self._open_cell(self._tables[-1], name, element)
        elif self._paragraphs:
            self._open_run(self._paragraphs[-1], name, element)

    def _open_cell(self, table: _Table, name: str, element: Any) -> None:
        if name == "tr":
            table.row = []
        elif name == "tc":
            table.row.append("")
            table.merged, table.span = False, 1
        elif name == "tblHeader" and is_on(element) and table.headers == len(table.rows):
            table.headers += 1
        elif name == "gridSpan":
            table.span = min(read_integer(read_value(element), 5, 1), _MAX_SPAN)
        elif name == "vMerge":
            table.merged = read_value(element) != "restart"

    def _open_run(self, paragraph: _Paragraph, name: str, element: Any) -> None:
        if name == "t":
            paragraph.text.append(self._read_text(paragraph, element))
        elif name in _BREAKS and local_name(element.getparent()) == "r":
            paragraph.text.append(_BREAKS[name])
        elif name == "pPr":
            self._read_properties(paragraph, element)
        elif name == "docPr" and (description := read_description(element)):
            paragraph.text.append(f" {description} ")
        elif name in _DRAWN and (write := self._drawings.pop(read_value(element, _DRAWN[name]), None)):
            self._drawn.append(write)
        elif name in _NOTES:
            note = self._notes.pop((_NOTES[name], read_value(element, "id")), None)
            if note:
                self._calls += 1
                paragraph.text.append(f"[{self._calls}]")
                self._called.append(f"[{self._calls}] {note}")

    def _read_properties(self, paragraph: _Paragraph, element: Any) -> None:
        for item in element:
            name = local_name(item)
            if name == "pStyle":
                paragraph.style = read_value(item)
            elif name == "outlineLvl":
                paragraph.level = read_level(item)
            elif name == "numPr":
                paragraph.number = read_number(item)
            elif name == "shd":
                paragraph.shaded = True
        style = self._styles.get(paragraph.style, _PLAIN)
        paragraph.level = style.level if paragraph.level is None else paragraph.level
        paragraph.number = paragraph.number or style.number

    def _read_text(self, paragraph: _Paragraph, element: Any) -> str:
        text = remove_marks(element.text or "")
        # The properties of a run are its first child.
        properties = next((item for item in islice(element.getparent(), 2) if local_name(item) == "rPr"), None)
        reason = self._find_reason(paragraph, properties)
        return f"{OPEN[reason]}{text}{CLOSE}" if reason and text else text

    def _find_reason(self, paragraph: _Paragraph, properties: Any) -> HiddenReason | None:
        """Why a run is not seen: it is vanished, tiny, or white where nothing is known to be behind it."""
        hidden = self._styles.get(paragraph.style, _PLAIN).hidden
        white = shaded = tiny = False
        for item in properties if properties is not None else ():
            name = local_name(item)
            if name == "vanish":
                hidden = is_on(item)
            elif name == "rStyle":
                style = self._styles.get(read_value(item), _PLAIN)
                hidden = style.hidden if style.hidden is not None else hidden
            elif name == "color":
                white = read_value(item).upper() == "FFFFFF"
            elif name in {"shd", "highlight"}:
                shaded = True
            elif name == "sz":
                tiny = read_value(item).isdecimal() and int(read_value(item)) <= _TINY
        if hidden:
            return "hidden_run"
        if tiny:
            return "tiny"
        known = self._tables or self._boxes or self._background or paragraph.shaded or shaded
        return "same_colour" if white and not known else None

    def _close(self, name: str) -> None:
        if name == "p" and self._paragraphs:
            self._write(self._paragraphs.pop())
        elif name == "txbxContent":
            self._boxes -= 1
        elif name in {"tc", "tr", "tbl"} and self._tables:
            self._close_cell(self._tables[-1], name)

    def _close_cell(self, table: _Table, name: str) -> None:
        if name == "tc" and table.row:
            text = collapse_spaces(table.row[-1])
            above = table.rows[-1] if table.rows else []
            if table.merged and not text and len(table.row) <= len(above):
                text = above[len(table.row) - 1]
            table.row[-1] = text
            repeated = text if table.headers > len(table.rows) else ""
            table.row.extend([repeated] * (table.span - 1))
        elif name == "tr":
            if any(table.row):
                table.rows.append(table.row)
            table.row = []
        elif name == "tbl":
            self._tables.pop()
            self._write_table(table)

    def _write_table(self, table: _Table) -> None:
        if self._in_cell():
            text = "; ".join(", ".join(filter(None, row)) for row in table.rows)
            self._tables[-1].row[-1] += f" {text}"
            return
        write_markdown_table(self._builder, table.rows, table.headers or None)
        self._listed = False
        self._write_additions()

    def _in_cell(self) -> bool:
        return bool(self._tables) and not self._tables[-1].plain and bool(self._tables[-1].row)

    def _write(self, paragraph: _Paragraph) -> None:
        text = "".join(paragraph.text)
        if self._styles.get(paragraph.style, _PLAIN).contents:
            return
        mark = None
        if paragraph.number is not None and text.strip():
            mark = self._numbering.count(*paragraph.number, paragraph.style)
        shown, depth = mark or ("", 0)
        if self._in_cell():
            self._tables[-1].row[-1] += f" {shown}{text}"
        elif paragraph.level is None:
            if text.strip():
                gap = "\n" if mark and self._listed else "\n\n"
                add_marked(self._builder, f"{'  ' * min(depth, MAX_INDENT)}{shown}{text}", gap)
                self._listed = mark is not None
            self._write_additions()
        else:
            self._write_heading(f"{'' if shown == BULLET else shown}{text}", paragraph.level)

    def _write_heading(self, text: str, level: int) -> None:
        if level == 0 and self.title is None:
            self.title = remove_marks(text)
        self._builder.add_heading(text, max(level, 1))
        self._listed = False
        self._write_additions()

    def _write_additions(self) -> None:
        if self._in_cell() or not (self._called or self._drawn):
            return
        for write in self._drawn:
            write()
        for note in self._called:
            add_marked(self._builder, note)
        self._drawn, self._called, self._listed = [], [], False


def write_chart(builder: TextBuilder, chart: Any) -> None:
    """Write the title of a chart, and the values of its series as a table."""
    lines = ("".join(item.text or "" for item in part.iter("{*}t")) for part in chart.iter("{*}p"))
    add_marked(builder, remove_marks("\n".join(filter(None, lines))))
    write_markdown_table(builder, read_chart(chart), 1)


def read_notes(root: Any, kind: str) -> Iterator[tuple[str, str]]:
    """The texts of the notes by id."""
    for number, note in enumerate(root.iterfind(f"{{*}}{kind}") if root is not None else ()):
        key = read_value(note, "id") or f"unnamed {number}"
        paragraphs = ("".join(item.text or "" for item in part.iter("{*}t")) for part in note.iter("{*}p"))
        text = collapse_spaces(remove_marks(" ".join(paragraphs)))
        if text:
            yield key, text


_MAIN_PART = re.compile(r"word/document\d*\.xml")


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a Word document; tables become Markdown rows; notes and texts of pictures follow their paragraph.

    Headers, footers, comments, tracked deletions and tables of contents are omitted.
    """
    with open_archive(io.BytesIO(data), "DOCX", limits) as archive:
        names = archive.namelist()
        main = next((name for name in names if _MAIN_PART.fullmatch(name)), None)
        if main is None:
            raise UnreadableDocument("the DOCX file is damaged: it has no main text")
        package = OfficePackage(archive, "DOCX", limits)
        styles = read_styles(package.read_part("word/styles.xml"))
        builder = TextBuilder(limits)
        notes = {
            (kind, number): text
            for kind in ("footnote", "endnote")
            for number, text in read_notes(package.read_part(f"word/{kind}s.xml"), kind)
        }
        pictures = PictureParts(archive, limits)
        # Each once, although a hostile file can name it many times.
        drawn = {target: (kind, key) for key, (kind, target) in package.read_relations(main).items()}
        drawings: dict[str, Callable[[], object]] = {
            key: partial(pictures.write, builder, target) for target, (kind, key) in drawn.items() if kind == "image"
        }
        for target, (kind, key) in drawn.items():
            if kind == "chart" and (chart := package.read_part(target)) is not None:
                drawings[key] = partial(write_chart, builder, chart)
        reader = BodyReader(builder, styles, Numbering(package.read_part("word/numbering.xml")), notes, drawings)
        reader.read(package.read_part(main))
        title = package.read_title()
    return builder.finish("docx", title=title or reader.title)
