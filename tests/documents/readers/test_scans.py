"""Pages of a PDF that are images: listed, or recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.documents.ocr.access import RecognitionNeeded, provide
from app.documents.ocr.layout import Found
from app.documents.ocr.recogniser import Recogniser, open_image
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers import bundle
from app.documents.readers.pdf import reader
from app.errors import UnreadableDocument
from tests.documents.ocr.drawn import ENGLISH, join_pdfs, stamp, write_scan
from tests.documents.ocr.pages import ListedEngine, found
from tests.documents.office import write_zip
from tests.fixtures.documents import write_pdf

LINES = [found(line, 20, 30 * n, 600) for n, line in enumerate(ENGLISH)]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    provide(None)


def read(data: bytes, lines: Sequence[Found] = LINES, **changes: Any) -> ParsedDocument:
    limits = ParseLimits(**changes)
    provide("here", Recogniser(ListedEngine(lines), open_image, limits))
    return reader.parse(data, limits)


SCAN = write_scan([ENGLISH])
TEXT = write_pdf([["A page of letters."]])
MIXED = join_pdfs(TEXT, SCAN, write_pdf([[]]), TEXT, SCAN)


def test_scanned_pages_are_listed_without_the_extra() -> None:
    provide("absent")
    document = reader.parse(MIXED, ParseLimits())
    assert (document.total_pages, document.pages_without_text) == (5, (2, 5))
    assert document.text.count("A page of letters.") == 2
    assert document.recognised == ()


def test_a_document_without_text_is_refused_with_the_name_of_the_extra() -> None:
    provide("absent")
    with pytest.raises(UnreadableDocument, match=r"no text layer: .*scanned.*knowledge-search\[ocr\]"):
        reader.parse(SCAN, ParseLimits())
    with pytest.raises(UnreadableDocument, match=r"a\.pdf in the ZIP file: .*knowledge-search\[ocr\]"):
        bundle.parse(write_zip({"a.pdf": SCAN}), ParseLimits())
    with pytest.raises(UnreadableDocument, match="no text layer: and its pages show nothing"):
        reader.parse(write_pdf([[]]), ParseLimits())
    provide("failed")
    with pytest.raises(UnreadableDocument, match="not recognised within the limits"):
        reader.parse(SCAN, ParseLimits())


def test_another_process_is_asked_for_a_scanned_page_only() -> None:
    provide("elsewhere")
    assert reader.parse(join_pdfs(TEXT, write_pdf([[]])), ParseLimits()).pages_without_text == ()
    for data in (MIXED, SCAN):
        with pytest.raises(RecognitionNeeded):
            reader.parse(data, ParseLimits())
    with pytest.raises(RecognitionNeeded):
        bundle.parse(write_zip({"a.pdf": SCAN}), ParseLimits())


def test_scanned_pages_are_recognised() -> None:
    document = read(MIXED)
    texts = [document.text[page.start : page.end] for page in document.pages]
    assert texts == ["A page of letters.", "\n".join(ENGLISH), "", "A page of letters.", "\n".join(ENGLISH)]
    assert document.pages_without_text == ()
    assert [document.is_recognised(page.start, page.end) for page in document.pages] == [
        False, True, False, False, True,
    ]  # fmt: skip


def test_pages_beyond_the_limits_are_listed() -> None:
    document = read(MIXED, ocr_pages=1)
    assert document.pages_without_text == (5,)
    assert len(document.recognised) == 1
    with pytest.raises(UnreadableDocument, match="not recognised within the limits"):
        read(SCAN, ocr_pages=0)


def test_a_page_with_a_stamp_of_the_scanner_is_recognised() -> None:
    stamped = stamp(SCAN, "Scanned by CamScan")
    assert ENGLISH[0] in read(stamped).text
    provide("absent")
    document = reader.parse(stamped, ParseLimits())
    assert (document.text, document.pages_without_text) == ("Scanned by CamScan", (1,))


def test_a_text_layer_that_has_more_than_the_image_is_kept() -> None:
    document = read(stamp(SCAN, "The caption of a photograph"), [found("Shop", 0, 0, 90)])
    assert (document.text, document.recognised) == ("The caption of a photograph", ())
    assert document.pages_without_text == ()


def test_a_page_with_enough_text_over_an_image_is_not_recognised() -> None:
    document = read(stamp(SCAN, *ENGLISH), [found("wrong " * 90, 0, 0, 900)])
    assert document.text.split() == " ".join(ENGLISH).split()
