"""PPTX, read from its XML: a slide is a page, its title is a heading, and its notes follow it.

Hidden slides are read like others, because their numbers count. Comments, and the headers, footers and numbers of
slides are not part of the text.
"""

from __future__ import annotations

import io
import re

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.office.ooxml import OfficePackage
from app.documents.readers.office.pptx.slides import SlideWriter, list_slides
from app.documents.readers.text import collapse_spaces
from app.errors import UnreadableDocument

_PROGRAM_TITLE = re.compile(r"^(?:powerpoint.?(?:presentation|präsentation)|présentation powerpoint)$", re.I)


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a PowerPoint file: text boxes, tables, diagrams, chart titles, descriptions of pictures and notes.

    Raises UnreadableDocument when it is damaged, encrypted, has more slides than `max_pages`, or exceeds the
    limit when unpacked.
    """
    with open_archive(io.BytesIO(data), "PPTX", limits) as archive:
        package = OfficePackage(archive, "PPTX", limits)
        slides, width = list_slides(package)
        if len(slides) > limits.max_pages:
            raise UnreadableDocument(
                f"the PPTX file has {len(slides):,} slides; at most {limits.max_pages:,} are read"
            )
        builder = TextBuilder(limits)
        writer = SlideWriter(package, builder, width)
        titles = [writer.write(number, slide) for number, slide in enumerate(slides, start=1)]
        stated = collapse_spaces(package.read_title() or "")
    if not stated or _PROGRAM_TITLE.match(stated):
        stated = next(filter(None, titles), "")
    return builder.finish("pptx", title=stated or None, total_pages=len(slides))
