"""DOCX, read from its XML, including content controls, tracked insertions, text boxes and notes.

Headers, footers, comments, tracked deletions and tables of contents are not part of the text.
"""

from __future__ import annotations

import io
import re

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.office.docx.body import BodyReader, read_notes
from app.documents.readers.office.docx.numbering import Numbering
from app.documents.readers.office.docx.styles import read_styles
from app.documents.readers.office.ooxml import OfficePackage
from app.errors import UnreadableDocument

_MAIN_PART = re.compile(r"word/document\d*\.xml")


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a Word document; tables become Markdown rows, and notes follow the paragraph that refers to them.

    Raises UnreadableDocument when it is damaged, encrypted, or exceeds the limit when unpacked.
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
        reader = BodyReader(builder, styles, Numbering(package.read_part("word/numbering.xml")), notes)
        root = package.read_part(main)
        if root is not None:
            reader.read(root)
        title = package.read_title()
    return builder.finish("docx", title=title or reader.title)
