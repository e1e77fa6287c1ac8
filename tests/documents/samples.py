"""Files written for the tests, byte by byte where the point is what a library would not write."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

import docx
from pypdf import PdfReader, PdfWriter

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def write_pdf(pages: Sequence[Sequence[str]], *, count: int | None = None, kids: str | None = None) -> bytes:
    """A PDF of Helvetica lines; `count` and `kids` replace what the page tree says of itself."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b""]
    objects[2] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    numbers = []
    for lines in pages:
        shown = b" T* ".join(b"(%s) Tj" % _escape(line) for line in lines)
        content = b"BT /F1 12 Tf 14 TL 72 720 Td " + shown + b" ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        numbers.append(len(objects))
    tree = kids if kids is not None else " ".join(f"{number} 0 R" for number in numbers)
    total = len(pages) if count is None else count
    objects[1] = f"<< /Type /Pages /Kids [{tree}] /Count {total} >>".encode()
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def write_pdf_with(
    pages: Sequence[Sequence[str]],
    *,
    user_password: str | None = None,
    title: str | None = None,
    outline: Sequence[tuple[str, int, bool]] = (),
) -> bytes:
    """A PDF with encryption, a title or an outline of (title, page index, is below the one before)."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(write_pdf(pages))))
    if title is not None:
        writer.add_metadata({"/Title": title})
    parent = None
    for text, page, below in outline:
        item = writer.add_outline_item(title=text, page_number=page, parent=parent if below else None)
        parent = parent if below else item
    if user_password is not None:
        writer.encrypt(user_password=user_password, owner_password="owner")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def write_docx() -> bytes:
    """A DOCX as Word's users write them: title, headings, list, table."""
    document = docx.Document()
    document.add_heading("Handbook", 0)
    document.add_heading("Install", 1)
    document.add_paragraph("First of all, read this.")
    document.add_heading("Linux", 2)
    document.add_paragraph("Open a shell.")
    table = document.add_table(2, 2)
    for row, cells in zip(table.rows, (("Name", "Value"), ("port", "8000")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("After the table.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def write_raw_docx(body: str, *, prolog: str = "", **parts: str) -> bytes:
    """A DOCX from the XML of its body; further parts by file name below `word/`, without the extension."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml",
            f'<?xml version="1.0"?>{prolog}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
        )
        for name, xml in parts.items():
            archive.writestr(f"word/{name}.xml", xml)
    return out.getvalue()


def paragraph(text: str) -> str:
    """The XML of one plain paragraph."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def write_slow_html() -> bytes:
    """A page that takes several seconds to read."""
    return b"<!doctype html><body>" + b"<p>a <b>b</b> c</p>\n" * 700_000


def _escape(line: str) -> bytes:
    raw = line.encode("cp1252")
    return raw.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
