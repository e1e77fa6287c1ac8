from __future__ import annotations

import io
import zipfile

import pytest

from app.documents.formats import detect_format
from app.errors import InvalidInput, UnreadableDocument, UnsupportedMediaType
from tests.documents.samples import write_docx, write_pdf, write_raw_docx


@pytest.mark.parametrize(
    ("data", "filename", "declared", "expected"),
    [
        (write_pdf([["x"]]), "notes.txt", "text/plain", "pdf"),
        (b"\n\n%PDF-1.7 and so on", None, None, "pdf"),
        (write_docx(), "a.zip", "application/zip", "docx"),
        (write_raw_docx("").replace(b"document.xml", b"documen2.xml"), "x.docx", None, None),
        (b"<!DOCTYPE html><p>x", "a.txt", None, "html"),
        (b'\xef\xbb\xbf <?xml version="1.0"?><!-- c -->\n<html><p>x', None, None, "html"),
        ("<html>ä</html>".encode("utf-16"), None, None, "html"),
        (b"<p>Hello</p>", "a.html", None, "html"),
        (b"<p>Hello</p>", None, "text/html; charset=utf-8", "html"),
        (b"no tags at all", "a.html", None, "text"),
        (b"# Title\n\ntext", "a.md", None, "markdown"),
        (b"<div align=center>\n\n# Title", "README.md", None, "markdown"),
        (b"plain", None, "text/markdown", "markdown"),
        (b"# Title\n\n- item\n", None, "application/octet-stream", "markdown"),
        (b"# Title\n\n- item\n", "notes.txt", None, "text"),
        (b"# just a comment\nx = 1\n", None, None, "text"),
        ("Grüße".encode("cp1252"), "a.pdf", "application/pdf", "text"),
        ("Grüße".encode("utf-16"), None, None, "text"),
        (b"\x1b[31mred\x1b[0m", "a.log", None, "text"),
    ],
)
def test_format_is_told_from_the_bytes(
    data: bytes, filename: str | None, declared: str | None, expected: str | None
) -> None:
    if expected is None:
        with pytest.raises(UnsupportedMediaType):
            detect_format(data, filename, declared)
    else:
        assert detect_format(data, filename, declared).name == expected


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not read"),
        (bytes(range(256)), "not read"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old Office"),
        (b"{\\rtf1 text}", "RTF"),
        ("a".encode("utf-16-le") * 9, "not read"),
    ],
)
def test_unknown_kind_is_refused_with_what_is_read(data: bytes, hint: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=hint) as refusal:
        detect_format(data, "document.pdf", "application/pdf")
    for label in ("plain text", "Markdown", "HTML", "PDF", "DOCX"):
        assert label in str(refusal.value)


def test_other_zip_file_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", write_raw_docx("x"))
    with pytest.raises(UnsupportedMediaType):
        detect_format(out.getvalue(), "a.docx")


def test_empty_file_is_invalid_input() -> None:
    with pytest.raises(InvalidInput, match="file: the file is empty"):
        detect_format(b"", "a.pdf")


def test_word_file_under_a_password_is_named() -> None:
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(UnreadableDocument, match="encrypted"):
        detect_format(data, "a.docx")
