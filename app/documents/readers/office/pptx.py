"""PPTX, read from its XML: a slide is a page, its title is a heading, and its notes follow it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.office.ooxml import OfficePackage, find_children, local_name
from app.documents.readers.text import collapse_spaces
from app.errors import UnreadableDocument

_MAIN_PART = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
# Date, footer and number of each slide, and the slide's picture on its notes page.
_FURNITURE = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})
_PROGRAM_TITLE = re.compile(r"^(?:powerpoint.?(?:presentation|präsentation)|présentation powerpoint)$", re.I)


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a PowerPoint file: text boxes, tables, diagrams, chart titles and notes.

    Raises UnreadableDocument when it is damaged, encrypted, has more slides than `max_pages`, or exceeds the
    limit when unpacked.
    """
    with open_archive(io.BytesIO(data), "PPTX", limits) as archive:
        package = OfficePackage(archive, "PPTX", limits)
        slides = _list_slides(package)
        if len(slides) > limits.max_pages:
            raise UnreadableDocument(
                f"the PPTX file has {len(slides):,} slides; at most {limits.max_pages:,} are read"
            )
        builder = TextBuilder(limits)
        first_title = None
        for number, slide in enumerate(slides, start=1):
            title, blocks = _read_slide(package, slide)
            span = builder.add_page(number, "\n\n".join([title, *blocks] if title else blocks))
            if title:
                builder.mark_heading(span.start, title, 1)
                first_title = first_title or title
        stated = collapse_spaces(package.read_title() or "")
    if not stated or _PROGRAM_TITLE.match(stated):
        return builder.finish("pptx", title=first_title, total_pages=len(slides))
    return builder.finish("pptx", title=stated, total_pages=len(slides))


def _list_slides(package: OfficePackage) -> list[str]:
    """The parts of the slides in display order, without duplicates."""
    root = package.read_part(_MAIN_PART)
    if root is None:
        raise UnreadableDocument("the PPTX file is damaged: it has no list of slides")
    relations = package.read_relations(_MAIN_PART)
    slides: dict[str, None] = {}
    for item in find_children(root, "sldIdLst", "sldId"):
        for name, value in item.attrib.items():
            if name.endswith("}id") and value in relations:
                slides[relations[value].target] = None
    return list(slides)


def _read_slide(package: OfficePackage, part: str) -> tuple[str, list[str]]:
    """The title of a slide (empty if it has none) and its other text."""
    root = package.read_part(part)
    if root is None:
        raise UnreadableDocument("the PPTX file is damaged: a slide is missing")
    title = ""
    blocks = []
    for placeholder, block in _read_shapes(root):
        if placeholder in _TITLES and not title:
            title = collapse_spaces(block)
        elif placeholder not in _FURNITURE:
            blocks.append(block)
    for relation in package.read_relations(part).values():
        if relation.kind == "notesSlide":
            notes = package.read_part(relation.target)
            shapes = _read_shapes(notes) if notes is not None else ()
            blocks += [block for placeholder, block in shapes if placeholder not in _FURNITURE]
        elif relation.kind in {"diagramData", "chart"}:
            drawing = package.read_part(relation.target)
            if drawing is not None:
                blocks.append("\n".join(filter(None, _read_paragraphs(drawing))))
    return title, blocks


def _read_shapes(root: Any) -> Iterator[tuple[str, str]]:
    """Text boxes and tables, each with the kind of its placeholder ("" for none)."""
    for shape in root.iter("{*}sp", "{*}cxnSp", "{*}tbl"):
        if _is_fallback(shape):
            continue
        if local_name(shape) == "tbl":
            rows = (
                [_read_cell(cell) for cell in find_children(row, "tc")] for row in find_children(shape, "tr")
            )
            block = "\n".join(" | ".join(cells) for cells in rows if any(cells))
            placeholder = ""
        else:
            bodies = find_children(shape, "txBody")
            block = "\n".join(line for body in bodies for line in _read_paragraphs(body))
            holders = find_children(shape, "nvSpPr", "nvPr", "ph")
            placeholder = next((holder.get("type", "body") for holder in holders), "")
        if block.strip():
            yield placeholder, block


def _is_fallback(element: Any) -> bool:
    """Whether this is the second copy of a shape, for old programs."""
    return next(element.iterancestors("{*}Fallback"), None) is not None


def _read_cell(cell: Any) -> str:
    return " ".join(" ".join(_read_paragraphs(cell)).split())


def _read_paragraphs(element: Any) -> Iterator[str]:
    for paragraph in element.iter("{http://schemas.openxmlformats.org/drawingml/2006/main}p"):
        pieces = []
        for item in paragraph.iter():
            name = local_name(item)
            if name == "t":
                pieces.append(item.text or "")
            elif name == "br":
                pieces.append("\n")
        yield "".join(pieces)
