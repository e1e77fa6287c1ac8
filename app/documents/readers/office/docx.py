"""DOCX, read from its XML, including content controls, tracked insertions, text boxes and notes."""

from __future__ import annotations

import io
import re
from typing import Any

from lxml import etree

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.office.ooxml import OfficePackage, find_children, local_name
from app.errors import UnreadableDocument

_MAIN_PART = re.compile(r"word/document\d*\.xml")
_HEADING_STYLE = re.compile(r"heading (\d)$")
# Text that was moved away, and the second copy of a text box for old programs.
_SKIPPED = frozenset({"moveFrom", "Fallback", "sectPr"})
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a Word document; each table row becomes a line, notes follow at the end.

    Raises UnreadableDocument when it is damaged, encrypted, or exceeds the limit when unpacked.
    """
    with open_archive(io.BytesIO(data), "DOCX", limits) as archive:
        names = archive.namelist()
        main = next((name for name in names if _MAIN_PART.fullmatch(name)), None)
        if main is None:
            raise UnreadableDocument("the DOCX file is damaged: it has no main text")
        package = OfficePackage(archive, "DOCX", limits)
        styles = _read_heading_styles(package.read_part("word/styles.xml"))
        builder = TextBuilder(limits)
        reader = _BodyReader(builder, styles)
        for part in (main, "word/footnotes.xml", "word/endnotes.xml"):
            root = package.read_part(part)
            if root is not None:
                reader.read(root)
        title = package.read_title()
    return builder.finish("docx", title=title or reader.title)


def _value(element: Any) -> str:
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}val")), "")


def _read_heading_styles(root: Any) -> dict[str, int]:
    """Heading level by style id (the `Title` style is level 0), inherited through `basedOn`."""
    levels: dict[str, int] = {}
    parents: dict[str, str] = {}
    for style in find_children(root, "style") if root is not None else ():
        key = next((str(value) for name, value in style.attrib.items() if name.endswith("}styleId")), "")
        name = next((_value(item).lower() for item in find_children(style, "name")), "")
        outline = next((_value(item) for item in find_children(style, "pPr", "outlineLvl")), "")
        heading = _HEADING_STYLE.match(name)
        if name == "title":
            levels[key] = 0
        elif heading:
            levels[key] = int(heading.group(1))
        elif outline.isdecimal() and int(outline) < 9:
            levels[key] = int(outline) + 1
        parents[key] = next((_value(item) for item in find_children(style, "basedOn")), "")
    for key in parents:
        ancestor, seen = key, {key}
        while ancestor not in levels and parents.get(ancestor) and parents[ancestor] not in seen:
            ancestor = parents[ancestor]
            seen.add(ancestor)
        if ancestor in levels:
            levels[key] = levels[ancestor]
    return levels


class _Paragraph:
    __slots__ = ("level", "listed", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.level: int | None = None
        self.listed = False


class _BodyReader:
    def __init__(self, builder: TextBuilder, styles: dict[str, int]) -> None:
        self.title: str | None = None
        self._builder = builder
        self._styles = styles
        self._paragraphs: list[_Paragraph] = []
        self._rows: list[list[str]] = []  # the cells so far of each open row, innermost table last
        self._in_table = False

    def read(self, root: Any) -> None:
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

    def _open(self, name: str, element: Any) -> None:
        if name == "p":
            self._paragraphs.append(_Paragraph())
        elif name == "tr":
            self._rows.append([])
        elif name == "tc" and self._rows:
            self._rows[-1].append("")
        elif self._paragraphs:
            paragraph = self._paragraphs[-1]
            if name == "t":
                paragraph.text.append(element.text or "")
            elif name in _BREAKS and local_name(element.getparent()) == "r":
                paragraph.text.append(_BREAKS[name])
            elif name == "pStyle":
                paragraph.level = self._styles.get(_value(element), paragraph.level)
            elif name == "outlineLvl" and _value(element).isdecimal() and int(_value(element)) < 9:
                paragraph.level = int(_value(element)) + 1
            elif name == "numPr":
                paragraph.listed = True

    def _close(self, name: str) -> None:
        if name == "p" and self._paragraphs:
            self._write(self._paragraphs.pop())
        elif name == "tr" and self._rows:
            cells = [" ".join(cell.split()) for cell in self._rows.pop()]
            if any(cells):
                self._write_row(" | ".join(cells))
        elif name == "tbl" and not self._rows:
            self._in_table = False

    def _write(self, paragraph: _Paragraph) -> None:
        text = "".join(paragraph.text)
        if self._rows and self._rows[-1]:
            self._rows[-1][-1] += f" {text}"
        elif paragraph.level is None:
            self._builder.add(text, gap="\n" if paragraph.listed else "\n\n")
        else:
            if paragraph.level == 0 and self.title is None:
                self.title = text
            self._builder.add_heading(text, max(paragraph.level, 1))

    def _write_row(self, line: str) -> None:
        if self._rows and self._rows[-1]:
            self._rows[-1][-1] += f" {line}"
        else:
            self._builder.add(line, gap="\n" if self._in_table else "\n\n")
            self._in_table = True
