"""Reads the slides of a deck and writes each as a page."""

from __future__ import annotations

from app.documents.readers.builder import TextBuilder
from app.documents.readers.marks import add_marked, remove_marks
from app.documents.readers.office.ooxml import OfficePackage, find_children
from app.documents.readers.office.pptx.shapes import Shape, read_paragraphs, read_shapes
from app.documents.readers.tables.markdown import write_markdown_table
from app.documents.readers.text import collapse_spaces
from app.errors import UnreadableDocument

_MAIN_PART = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
# Date, footer and number of each slide, and the slide's picture on its notes page.
_FURNITURE = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})


def list_slides(package: OfficePackage) -> tuple[list[str], int | None]:
    """The parts of the slides in display order, without duplicates, and the width of a slide."""
    root = package.read_part(_MAIN_PART)
    if root is None:
        raise UnreadableDocument("the PPTX file is damaged: it has no list of slides")
    relations = package.read_relations(_MAIN_PART)
    slides: dict[str, None] = {}
    for item in find_children(root, "sldIdLst", "sldId"):
        for name, value in item.attrib.items():
            if name.endswith("}id") and value in relations:
                slides[relations[value].target] = None
    width = next((item.get("cx", "") for item in find_children(root, "sldSz")), "")
    return list(slides), int(width) if width.isdecimal() and len(width) < 12 else None


class SlideWriter:
    """Writes slides as pages; `width` is that of a slide, if it is known."""

    def __init__(self, package: OfficePackage, builder: TextBuilder, width: int | None) -> None:
        self._package = package
        self._builder = builder
        self._width = width
        self._start: int | None = None  # where the text of the current page begins

    def write(self, number: int, part: str) -> str:
        """Write a slide with its diagrams, charts and notes; returns its title, empty if it has none."""
        root = self._package.read_part(part)
        if root is None:
            raise UnreadableDocument("the PPTX file is damaged: a slide is missing")
        shapes = read_shapes(root, self._width)
        self._start = None
        heading = next(
            (shape for shape in shapes if shape.placeholder in _TITLES and shape.text.strip()), None
        )
        title = collapse_spaces(remove_marks(heading.text)) if heading else ""
        if heading and title:
            self._add(collapse_spaces(heading.text))
        for shape in shapes:
            if shape is not heading:
                self._write_shape(shape)
        for relation in self._package.read_relations(part).values():
            if relation.kind == "notesSlide":
                notes = self._package.read_part(relation.target)
                for shape in read_shapes(notes, None) if notes is not None else ():
                    self._write_shape(shape)
            elif relation.kind in {"diagramData", "chart"}:
                drawing = self._package.read_part(relation.target)
                if drawing is not None:
                    self._add("\n".join(filter(None, read_paragraphs(drawing))))
        span = self._builder.mark_page(number, self._start)
        if title:
            self._builder.mark_heading(span.start, title, 1)
        return title

    def _write_shape(self, shape: Shape) -> None:
        if shape.placeholder in _FURNITURE:
            return
        if shape.rows:
            start = write_markdown_table(self._builder, shape.rows, shape.headers)
            self._start = start if self._start is None else self._start
        else:
            self._add(shape.text)

    def _add(self, text: str) -> None:
        start = add_marked(self._builder, text)
        self._start = start if self._start is None else self._start
