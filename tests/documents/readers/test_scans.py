"""Images, and pages of a PDF that are images: listed, or recognised."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter

from app.documents.ocr.access import RecognitionNeeded, provide
from app.documents.ocr.layout import Found
from app.documents.ocr.recogniser import Recogniser
from app.documents.parsed import ParsedDocument, ParseLimits, RecognisedSpan
from app.documents.readers import bundle
from app.documents.readers.images import parse_image
from app.documents.readers.pdf import reader
from app.errors import UnreadableDocument
from tests.documents.drawn_pdf import PROSE, read_drawn, write_lines
from tests.documents.listing import list_pages
from tests.documents.ocr.pages import (
    ENGLISH,
    ListedEngine,
    draw_page,
    found,
    join_pdfs,
    save,
    stamp,
    write_image,
    write_scan,
)
from tests.documents.office import write_zip
from tests.fixtures.documents import write_pdf

LINES = [found(line, 20, 30 * n, 600) for n, line in enumerate(ENGLISH)]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    provide(None)


def read(data: bytes, lines: Sequence[Found] = LINES, **changes: Any) -> ParsedDocument:
    limits = ParseLimits(**changes)
    provide("here", Recogniser(ListedEngine(lines), limits))
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


@pytest.mark.parametrize(("width", "listed"), [(200, (2,)), (20, ())])
def test_an_image_of_a_few_lines_on_a_page_without_text_is_listed(width: int, listed: tuple[int, ...]) -> None:
    provide("absent")
    image = f"q {width} 0 0 40 60 500 cm /I Do Q"
    assert read_drawn(write_lines(PROSE, 60, 780), image).pages_without_text == listed


def test_a_document_without_text_is_refused_with_the_name_of_the_extra() -> None:
    provide("absent")
    with pytest.raises(UnreadableDocument, match=r"no text layer: .*scanned.*the extra `ocr`"):
        reader.parse(SCAN, ParseLimits())
    with pytest.raises(UnreadableDocument, match=r"a\.pdf in the ZIP file: .*the extra `ocr`"):
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
    assert list_pages(document) == [
        "A page of letters.",
        "\n".join(ENGLISH),
        "",
        "A page of letters.",
        "\n".join(ENGLISH),
    ]
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


def write_report(*, kind: str = "text", size: tuple[int, int] = (400, 120)) -> bytes:
    """A page of text with a picture, and one without."""
    picture = draw_page([f"{name:<12}{depth} m" for name, depth in (("Quay", 4), ("Pier", 3))], dpi=72).crop(
        (40, 20, 440, 140)
    )
    if kind == "photo":
        picture = Image.linear_gradient("L").resize((400, 120))
    page = PdfReader(io.BytesIO(save(picture.resize(size), "PDF", resolution=72))).pages[0]
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(write_pdf([PROSE, ["The second page has no picture."]]))))
    writer.pages[0].merge_translated_page(page, 80, 100)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


DEPTHS = [found("Depths of the quay and the pier", 20, 0, 300)]


def test_a_picture_of_text_on_a_page_with_text_is_recognised() -> None:
    document = read(write_report(), DEPTHS)
    assert (document.total_pages, document.pages_without_text) == (2, ())
    first, second = list_pages(document)
    assert first.endswith("\n\nDepths of the quay and the pier")
    assert PROSE[0].split()[0] in first
    assert second == "The second page has no picture."
    assert [document.text[span.start : span.end] for span in document.recognised] == [DEPTHS[0].text]


def test_a_page_with_a_picture_of_text_is_named_where_it_is_not_recognised() -> None:
    assert read(write_report(), DEPTHS, ocr_pages=0).pages_without_text == (1,)
    provide("absent")
    document = reader.parse(write_report(), ParseLimits())
    assert (document.pages_without_text, document.recognised) == ((1,), ())
    provide("elsewhere")
    with pytest.raises(RecognitionNeeded):
        reader.parse(write_report(), ParseLimits())


@pytest.mark.parametrize("changes", [{"kind": "photo"}, {"size": (120, 36)}])
def test_photographs_and_small_pictures_are_not_recognised(changes: dict[str, Any]) -> None:
    provide("elsewhere")
    assert reader.parse(write_report(**changes), ParseLimits()).pages_without_text == ()


def test_a_logo_adds_nothing() -> None:
    document = read(write_report(), [found("ACME", 0, 0, 90)])
    assert (document.recognised, document.pages_without_text) == ((), ())


IMAGE_LINES = [found("A hyphen-", 0, 0, 300), found("ated word", 0, 30, 300)]


def read_image(data: bytes, lines: Sequence[Found] = IMAGE_LINES, **changes: Any) -> ParsedDocument:
    limits = ParseLimits(**changes)
    provide("here", Recogniser(ListedEngine(lines), limits))
    return parse_image(data, limits)


def write_tiff(pages: int) -> bytes:
    images = [Image.new("L", (9, 9), 255) for _ in range(pages)]
    return save(images[0], "TIFF", save_all=True, append_images=images[1:])


def test_each_page_has_its_recognised_text() -> None:
    document = read_image(write_tiff(2))
    assert (document.format, document.total_pages, document.pages_without_text) == ("tiff", 2, ())
    assert list_pages(document) == ["A hyphenated word"] * 2
    assert document.recognised == (RecognisedSpan(0, 17), RecognisedSpan(19, 36))
    assert document.is_recognised(18, 20)
    assert not document.is_recognised(17, 19)


def test_image_pages_beyond_the_limits_are_listed() -> None:
    document = read_image(write_tiff(4), ocr_pages=2)
    assert (document.total_pages, document.pages_without_text) == (4, (3, 4))


def test_an_image_without_text_is_refused_with_the_reason() -> None:
    with pytest.raises(UnreadableDocument, match="no text was recognised on the image"):
        read_image(write_image(), [])
    with pytest.raises(UnreadableDocument, match="not recognised within the limits"):
        read_image(write_image(), ocr_pages=0)
    with pytest.raises(UnreadableDocument, match="too large"):
        read_image(write_image(), image_bytes=10)


def test_a_damaged_page_does_not_lose_the_others() -> None:
    data = bytearray(write_tiff(3))
    data[4:8], first = (8).to_bytes(4, "little"), int.from_bytes(data[4:8], "little")
    document = read_image(bytes(write_tiff(3)))
    assert (first > 0, document.total_pages) == (True, 3)


def test_without_the_extra_the_reason_names_it() -> None:
    provide("absent")
    with pytest.raises(UnreadableDocument, match=r"the extra `ocr`"):
        parse_image(write_image(), ParseLimits())
    provide("elsewhere")
    with pytest.raises(RecognitionNeeded):
        parse_image(write_image(), ParseLimits())


def test_images_in_an_archive_are_recognised_and_others_skipped() -> None:
    read_image(write_image())
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
