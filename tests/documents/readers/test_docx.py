from __future__ import annotations

import io
import zipfile

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.office.docx import parse
from app.errors import UnreadableDocument
from tests.documents.office import write_zip
from tests.fixtures.documents import WORD, paragraph, write_docx, write_raw_docx

LIMITS = ParseLimits()


def test_docx_keeps_order_headings_and_tables() -> None:
    document = parse(write_docx(), LIMITS)
    assert document.text == (
        "Handbook\n\n\nInstall\n\nFirst of all, read this.\n\n\nLinux\n\nOpen a shell.\n\n"
        "Name | Value\nport | 8000\n\nAfter the table."
    )
    assert [(heading.level, heading.title) for heading in document.headings] == [
        (1, "Handbook"),
        (1, "Install"),
        (2, "Linux"),
    ]
    assert document.title == "Handbook"


def test_docx_heading_level_is_inherited_and_may_be_direct() -> None:
    styles = f"""<w:styles xmlns:w="{WORD}">
      <w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
      <w:style w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="berschrift1"/></w:style>
      <w:style w:styleId="Loop"><w:name w:val="a"/><w:basedOn w:val="Loop2"/></w:style>
      <w:style w:styleId="Loop2"><w:name w:val="b"/><w:basedOn w:val="Loop"/></w:style>
      <w:style w:styleId="Out"><w:name w:val="c"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
    </w:styles>"""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{style}</w:t></w:r></w:p>'
        for style in ("Mine", "Loop", "Out")
    )
    body += '<w:p><w:pPr><w:outlineLvl w:val="1"/></w:pPr><w:r><w:t>Direct</w:t></w:r></w:p>'
    document = parse(write_raw_docx(body, styles=styles), LIMITS)
    assert [(heading.level, heading.title) for heading in document.headings] == [
        (1, "Mine"),
        (3, "Out"),
        (2, "Direct"),
    ]


def test_docx_reads_controls_insertions_and_notes_without_deletions() -> None:
    body = (
        f"<w:sdt><w:sdtContent>{paragraph('control')}</w:sdtContent></w:sdt>"
        "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r>"
        "<w:ins><w:r><w:t> added</w:t></w:r></w:ins><w:del><w:r><w:delText> gone</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t> moved</w:t></w:r></w:moveFrom>"
        "<w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink></w:p>"
        "<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc>"
        f"{paragraph('inner')}</w:tc></w:tr></w:tbl>{paragraph('cell')}</w:tc></w:tr></w:tbl>"
    )
    notes = f'<w:footnotes xmlns:w="{WORD}"><w:footnote>{paragraph("the note")}</w:footnote></w:footnotes>'
    text = parse(write_raw_docx(body, footnotes=notes), LIMITS).text
    assert text == "control\n\na\tb\nc added link\n\ninner cell\n\nthe note"


@pytest.mark.parametrize("size", [100, 600, -30])
def test_truncated_docx_is_reported(size: int) -> None:
    with pytest.raises(UnreadableDocument, match="damaged"):
        parse(write_docx()[:size], LIMITS)


def test_docx_with_broken_xml_is_reported() -> None:
    with pytest.raises(UnreadableDocument, match="damaged: its XML"):
        parse(write_raw_docx("<w:p>"), LIMITS)


def test_docx_with_entities_is_refused() -> None:
    layers = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    data = write_raw_docx(paragraph("&l9;"), prolog=f'<!DOCTYPE x [<!ENTITY l0 "lol">{layers}]>')
    with pytest.raises(UnreadableDocument, match="XML entities"):
        parse(data, LIMITS)


def test_docx_with_entities_in_utf_16_is_refused() -> None:
    xml = f'<!DOCTYPE x [<!ENTITY e "x">]><w:document xmlns:w="{WORD}"><w:body>{paragraph("&e;")}</w:body></w:document>'
    with pytest.raises(UnreadableDocument, match="XML entities"):
        parse(write_zip({"word/document.xml": xml.encode("utf-16")}), LIMITS)


def test_deeply_nested_docx_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="damaged"):
        parse(write_raw_docx("<w:p>" * 50_000 + "</w:p>" * 50_000), LIMITS)


def test_docx_that_claims_too_large_a_size_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="too large when unpacked"):
        parse(write_raw_docx(paragraph("x" * (20 << 20))), LIMITS)
    with pytest.raises(UnreadableDocument, match=r"too large when unpacked.*1 MiB"):
        parse(write_raw_docx(paragraph("x" * (2 << 20))), ParseLimits(max_decompressed_bytes=1 << 20))


def test_docx_that_lies_about_its_size_is_refused() -> None:
    data = bytearray(write_raw_docx(paragraph("x" * (2 << 20))))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (100).to_bytes(4, "little")
    with pytest.raises(UnreadableDocument):
        parse(bytes(data), ParseLimits(max_decompressed_bytes=1 << 20))


def test_docx_with_too_many_parts_is_refused() -> None:
    out = io.BytesIO(write_raw_docx(paragraph("x")))
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(10_001):
            archive.writestr(f"p/{number}", b"")
    with pytest.raises(UnreadableDocument, match="10,002 parts"):
        parse(out.getvalue(), LIMITS)


def test_docx_part_with_a_password_is_named() -> None:
    data = bytearray(write_raw_docx(paragraph("x")))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 8] |= 1
    with pytest.raises(UnreadableDocument, match="encrypted"):
        parse(bytes(data), LIMITS)
