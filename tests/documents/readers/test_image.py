"""The text of an image is that of its recogniser, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from PIL import Image

from app.documents.ocr.access import RecognitionNeeded, provide
from app.documents.ocr.layout import Found
from app.documents.ocr.recogniser import Recogniser, open_image
from app.documents.parsed import ParsedDocument, ParseLimits, RecognisedSpan
from app.documents.readers import bundle
from app.documents.readers.scans import parse_image
from app.errors import UnreadableDocument
from tests.documents.ocr.pages import ListedEngine, found, save, write_image
from tests.documents.office import write_zip

LINES = [found("A hyphen-", 0, 0, 300), found("ated word", 0, 30, 300)]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    provide(None)


def read(data: bytes, lines: Sequence[Found] = LINES, **changes: Any) -> ParsedDocument:
    limits = ParseLimits(**changes)
    provide("here", Recogniser(ListedEngine(lines), open_image, limits))
    return parse_image(data, limits)


def write_tiff(pages: int) -> bytes:
    images = [Image.new("L", (9, 9), 255) for _ in range(pages)]
    return save(images[0], "TIFF", save_all=True, append_images=images[1:])


def test_each_page_has_its_recognised_text() -> None:
    document = read(write_tiff(2))
    assert (document.format, document.total_pages, document.pages_without_text) == ("tiff", 2, ())
    assert [document.text[page.start : page.end] for page in document.pages] == ["A hyphenated word"] * 2
    assert document.recognised == (RecognisedSpan(0, 17), RecognisedSpan(19, 36))
    assert document.is_recognised(18, 20)
    assert not document.is_recognised(17, 19)


def test_pages_beyond_the_limits_are_listed() -> None:
    document = read(write_tiff(4), ocr_pages=2)
    assert (document.total_pages, document.pages_without_text) == (4, (3, 4))


def test_an_image_without_text_is_refused_with_the_reason() -> None:
    with pytest.raises(UnreadableDocument, match="no text was recognised on the image"):
        read(write_image(), [])
    with pytest.raises(UnreadableDocument, match="not recognised within the limits"):
        read(write_image(), ocr_pages=0)
    with pytest.raises(UnreadableDocument, match="too large"):
        read(write_image(), image_bytes=10)


def test_a_damaged_page_does_not_lose_the_others() -> None:
    data = bytearray(write_tiff(3))
    data[4:8], first = (8).to_bytes(4, "little"), int.from_bytes(data[4:8], "little")
    document = read(bytes(write_tiff(3)))
    assert (first > 0, document.total_pages) == (True, 3)


def test_without_the_extra_the_reason_names_it() -> None:
    provide("absent")
    with pytest.raises(UnreadableDocument, match=r"knowledge-search\[ocr\]"):
        parse_image(write_image(), ParseLimits())
    provide("elsewhere")
    with pytest.raises(RecognitionNeeded):
        parse_image(write_image(), ParseLimits())


def test_images_in_an_archive_are_recognised_and_others_skipped() -> None:
    read(write_image())
    data = write_zip({"a.txt": b"some text", "b.png": write_image(), "c.png": write_image()[:60]})
    document = bundle.parse(data, ParseLimits())
    assert document.text.split("\n\n") == ["a.txt", "some text", "\nb.png", "A hyphenated word"]
    (span,) = document.recognised
    assert document.text[span.start : span.end] == "A hyphenated word"
    provide("absent")
    document = bundle.parse(data, ParseLimits())
    assert (document.text, document.recognised) == ("a.txt\n\nsome text", ())
    provide("elsewhere")
    with pytest.raises(RecognitionNeeded):
        bundle.parse(data, ParseLimits())
