import io
import time
import zipfile
from collections.abc import Iterator

import pytest

from app.documents.formats import FORMATS, DocumentFormat, detect_format, find_format
from app.documents.ocr.access import provide
from app.errors import InvalidInput, UnreadableDocument, UnsupportedMediaType
from tests.documents.office import write_epub, write_odf, write_pptx, write_xls, write_xlsx, write_zip
from tests.fixtures.documents import write_docx, write_pdf, write_raw_docx


@pytest.mark.parametrize(
    ("data", "filename", "declared", "expected"),
    [
        (write_pdf([["x"]]), "notes.txt", "text/plain", "pdf"),
        (b"\n\n%PDF-1.7 and so on", None, None, "pdf"),
        (write_docx(), "a.zip", "application/zip", "docx"),
        (write_raw_docx("").replace(b"document.xml", b"documen2.xml"), "x.docx", None, "zip"),
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
        (b"# A ti\x00tle\n\nA sl\x02ip of the pen", "a.md", None, "markdown"),
        (write_zip({"META-INF/container.xml": "<a/>", "b.opf": "<a/>"}), "a.zip", None, "epub"),
        (b'{"a": [1, 2]}', "a.txt", "text/plain", "json"),
        (b' [1, {"b": null}] ', None, None, "json"),
        (b'{"a": "' + b"long " * 4_000, None, None, "json"),
        (b"[" + b"1, " * 9_000 + b"1]", None, None, "json"),
        (b"[" * 20_000, None, None, "json"),
        (b'{"a": ' + b"9" * 5_000 + b"}", None, None, "json"),
        (b'{"a": 1, // no\n}', "a.json", None, "code"),
        (b"{name} wrote:", None, None, "text"),
        (b"[1] Smith, 2020", "refs.txt", None, "text"),
        (b"[link](x) and **more**", "a.md", None, "markdown"),
        (b'{"a": 1}\n{"a": 2}\n', None, None, "jsonl"),
        (b'{"a": 1}\n', "a.jsonl", None, "jsonl"),
        (b'{"a": "' + b"x" * 9_000 + b'"}\n{"a": 2}', "a.json", None, "jsonl"),
        (b"a,b\n1,2\n", "a.csv", None, "csv"),
        (b"a\tb\n1\t2\n", "a", "text/tab-separated-values", "csv"),
        (b"a,b,c\n1,2,3\n4,5,6\n", None, None, "csv"),
        (b"One, two.\nThree, four.\nFive, six.\n", None, None, "text"),
        (b"a,b,c\n1,2,3\n4,5,6\n", "a.txt", None, "text"),
        (b"# comment\n- item\n", "a.py", None, "code"),
        (b"x = 1", "a", "text/x-python", "code"),
        (b"FROM x", "Dockerfile", None, "code"),
        (b"#!/bin/sh\n# Title\n- x", None, None, "code"),
        (b"<?xml version='1.0'?><a>text</a>", None, None, "code"),
        (b"<html>", "a.py", None, "html"),
    ],
)
def test_format_is_recognised_from_the_bytes(
    data: bytes, filename: str | None, declared: str | None, expected: str
) -> None:
    assert detect_format(data, filename, declared).name == expected


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "kind of file is not supported"),
        (bytes(range(256)), "kind of file is not supported"),
        (b"MZ\0" + b"\xff" * 8_000, "kind of file is not supported"),
        (b"PK\x05\x06" + bytes(18), "kind of file is not supported"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old Office"),
        (b"{\\rtf1 text}", "RTF"),
        ("a".encode("utf-16-le") * 9, "kind of file is not supported"),
    ],
)
def test_unknown_format_is_refused_with_the_supported_ones(data: bytes, hint: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=hint) as refusal:
        detect_format(data, "document.bin", "application/octet-stream")
    for label in ("plain text", "Markdown", "HTML", "PDF", "DOCX", "PPTX", "XLSX", "CSV", "JSON", "source code", "ZIP"):
        assert label in str(refusal.value)


@pytest.mark.parametrize(
    ("filename", "declared", "said"),
    [
        ("x.docx", None, "says DOCX, but the file is damaged or of another kind; supported kinds: PDF, DOCX"),
        ("X.HTM", find_format("pptx").media_type, "says PPTX, but"),
        ("x.zip", None, "says ZIP, but"),
        ("x.txt", None, "kind of file is not supported"),
    ],
)
def test_file_that_is_not_what_its_name_says_is_refused_with_that_kind(
    filename: str, declared: str | None, said: str
) -> None:
    with pytest.raises(UnsupportedMediaType, match=said):
        detect_format(b"PK\x03\x04garbage", filename, declared)


def test_zip_of_an_unpacked_word_file_is_a_zip() -> None:
    assert detect_format(write_zip({"draft/word/document.xml": "<a/>"}), "a.docx").name == "zip"


@pytest.mark.parametrize(
    ("data", "expected"),
    [(write_docx(), "docx"), (write_pptx(), "pptx"), (write_xlsx(), "xlsx"), (write_zip({"a.txt": "x"}), "zip")],
)
@pytest.mark.parametrize("cut", [0, 30, 200])
def test_truncated_zip_file_is_still_recognised(data: bytes, expected: str, cut: int) -> None:
    assert detect_format(data[: max(40, len(data) - cut)], "a.txt", "text/plain").name == expected


@pytest.mark.parametrize(
    ("members", "hint"),
    [
        ({"mimetype": "application/vnd.oasis.opendocument.graphics"}, "OpenDocument drawings"),
        ({"Index/Document.iwa": "x"}, "Keynote, Numbers and Pages are not supported; export"),
        ({"index.apxl": "x"}, "Keynote"),
        ({"xl/workbook.bin": "x"}, "binary Excel"),
        ({"visio/document.xml": "x"}, "Visio"),
    ],
)
def test_unsupported_relative_of_a_format_is_refused_by_name(members: dict[str, str], hint: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(UnsupportedMediaType, match=hint):
        detect_format(out.getvalue())


IMAGES = {
    "png": b"\x89PNG\r\n\x1a\n\0",
    "jpeg": b"\xff\xd8\xff\xe0\0",
    "tiff": b"MM\0*\0",
    "webp": b"RIFF\x24\0\0\0WEBPVP8 ",
    "gif": b"GIF89a\1\0",
    "bmp": b"BM" + bytes(12) + b"\x28\0\0\0",
}


@pytest.fixture
def images_allowed() -> Iterator[None]:
    provide("here")
    yield
    provide(None)


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_refused_with_the_name_of_the_extra(name: str) -> None:
    provide("absent")
    try:
        with pytest.raises(UnsupportedMediaType, match=r"is an image .*the extra `ocr`") as refusal:
            detect_format(IMAGES[name], "a.pdf", "application/pdf")
    finally:
        provide(None)
    assert "PNG" not in str(refusal.value).rpartition("supported kinds:")[2]


@pytest.mark.usefixtures("images_allowed")
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_recognised_with_the_extra(name: str) -> None:
    kind = detect_format(IMAGES[name], "a.pdf", "application/pdf")
    assert (kind.name, kind.image) == (name, True)
    assert detect_format(b"GIF89a is a format, and BM is not", "a.gif", "image/gif").name == "text"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("item", [item for item in FORMATS if not item.image], ids=lambda item: item.name)
def test_stored_media_type_gives_the_same_format(item: DocumentFormat) -> None:
    data = {
        "pdf": write_pdf([["x"]]),
        "docx": write_docx(),
        "pptx": write_pptx(),
        "xlsx": write_xlsx(),
        "xls": write_xls([["x"]]),
        "odt": write_odf("text", ""),
        "odp": write_odf("presentation", ""),
        "ods": write_odf("spreadsheet", ""),
        "epub": write_epub([]),
        "eml": b"Subject: x\n\ny",
        "ipynb": b"{}",
        "captions": b"WEBVTT",
        "zip": write_zip({"a.txt": "x"}),
        "html": b"<p>x",
        "svg": b"<svg/>",
        "json": b"{}",
        "jsonl": b"{}",
        "sourcemap": b'{"sources": []}',
    }.get(item.name, b"plain words")
    assert detect_format(data, "no-extension", item.media_type).name == item.name


@pytest.mark.parametrize(
    "data", [b"<!---->" * 1_100 + b"x", b"](" * 4_000, b"<" * 8_000, b"{" * 8_000, b'"' * 8_000, b",|;\t" * 2_000]
)
def test_recognition_of_odd_text_takes_no_time(data: bytes) -> None:
    before = time.process_time()
    for hint in (None, "a.html", "a.md", "a.csv", "a.json"):
        detect_format(data, hint)
    # Backtracking would never end; the limit leaves room for a busy machine.
    assert time.process_time() - before < 5


def test_empty_file_is_invalid_input() -> None:
    with pytest.raises(InvalidInput, match="file: the file is empty"):
        detect_format(b"", "a.pdf")


def test_word_file_with_a_password_is_named() -> None:
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(UnreadableDocument, match="encrypted"):
        detect_format(data, "a.docx")
