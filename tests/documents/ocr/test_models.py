"""The models, in the confined process. Skipped without the extra `ocr`; `make test-ocr` installs it."""

import io
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter

from app.documents.ocr.access import is_installed
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.process.parsing import parse_document
from app.errors import UnreadableDocument
from tests.documents.bombs import write_frames, write_picture_bomb, write_vast_jpeg, write_vast_png, write_vast_tiff
from tests.documents.ocr.pages import ENGLISH, GERMAN, draw_page, join_pdfs, save, write_scan
from tests.documents.office import write_zip
from tests.documents.pictured import AFTER, BEFORE, KINDS, write_pictured
from tests.fixtures.documents import write_pdf

pytestmark = pytest.mark.skipif(not is_installed(), reason="needs the extra ocr: make test-ocr")


def is_nearly(text: str, lines: Sequence[str]) -> bool:
    """Whether at most one character in a hundred differs: the models are not perfect."""
    return SequenceMatcher(None, text, "\n".join(lines), autojunk=False).ratio() >= 0.99


def lines_of(document: ParsedDocument) -> list[str]:
    return [line for line in document.text.split("\n") if line]


@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("JPEG", {"quality": 40}), ("WEBP", {"quality": 50})])
async def test_an_image_gets_its_text_with_umlauts(kind: str, options: dict[str, Any]) -> None:
    data = save(draw_page([*GERMAN, *ENGLISH], noise=8, skew=1.5), kind, **options)
    document = await parse_document(data)
    assert is_nearly(document.text, [*GERMAN, *ENGLISH])
    assert document.is_recognised(0, len(document.text))
    assert document.pages_without_text == ()


@pytest.mark.parametrize("angle", [90, 180, 270])
async def test_a_page_on_its_side_is_turned(angle: int) -> None:
    image = draw_page(ENGLISH).rotate(angle, expand=True)
    assert lines_of(await parse_document(save(image, "PNG"))) == ENGLISH


async def test_scanned_pages_between_others_are_recognised() -> None:
    text = write_pdf([["A page of letters."]])
    document = await parse_document(join_pdfs(text, write_scan([GERMAN, ENGLISH], noise=8, skew=-1), text))
    texts = [document.text[page.start : page.end] for page in document.pages]
    assert (texts[0], texts[3]) == ("A page of letters.", "A page of letters.")
    assert is_nearly(texts[1], GERMAN)
    assert is_nearly(texts[2], ENGLISH)
    assert [document.is_recognised(page.start, page.end) for page in document.pages] == [False, True, True, False]
    assert document.pages_without_text == ()


async def test_a_file_is_read_without_recognition_if_that_fails() -> None:
    data = join_pdfs(write_pdf([["A page of letters."]]), write_scan([ENGLISH]))
    limits = ParseLimits(ocr_memory_bytes=0, memory_bytes=192 << 20)
    document = await parse_document(data, limits=limits)
    assert (document.text, document.pages_without_text) == ("A page of letters.", (2,))
    with pytest.raises(UnreadableDocument, match="not recognised within the limits"):
        await parse_document(write_scan([ENGLISH]), limits=limits)


async def test_each_page_of_a_fax_is_recognised() -> None:
    pages = [draw_page([line] * 3, dpi=200).convert("1") for line in ENGLISH]
    data = save(pages[0], "TIFF", save_all=True, append_images=pages[1:], compression="group4")
    document = await parse_document(data)
    texts = [document.text[page.start : page.end] for page in document.pages]
    assert len(texts) == 3
    assert all(is_nearly(text, [line] * 3) for text, line in zip(texts, ENGLISH, strict=True))


async def test_pages_without_time_are_listed() -> None:
    pages = [draw_page(ENGLISH) for _ in range(3)]
    data = save(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    document = await parse_document(data, limits=ParseLimits(ocr_pages=1))
    assert lines_of(document) == ENGLISH
    assert (document.total_pages, document.pages_without_text) == (3, (2, 3))


async def test_a_picture_on_a_page_with_text_is_recognised() -> None:
    picture = draw_page(ENGLISH, dpi=150).crop((0, 0, 1275, 400))
    page = PdfReader(io.BytesIO(save(picture, "PDF", resolution=200))).pages[0]
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(write_pdf([["A report with text of its own."] * 4]))))
    writer.pages[0].merge_translated_page(page, 60, 100)
    out = io.BytesIO()
    writer.write(out)
    document = await parse_document(out.getvalue(), "report.pdf")
    assert document.text.startswith("A report with text of its own.")
    assert [line for line in ENGLISH if line in document.text] == ENGLISH
    end = len(document.text)
    assert (document.is_recognised(0, 5), document.is_recognised(end - 5, end)) == (False, True)
    assert document.pages_without_text == ()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_picture_in_an_office_file_is_recognised(kind: str) -> None:
    picture = save(draw_page(ENGLISH, dpi=150).crop((0, 0, 1275, 400)), "PNG")
    document = await parse_document(write_pictured(kind, picture))
    lines = [line for line in lines_of(document) if "|" not in line]
    assert lines == [BEFORE, *ENGLISH, AFTER]
    assert [document.text[span.start : span.end] for span in document.recognised] == ["\n".join(ENGLISH)]


async def test_images_in_an_archive_are_recognised() -> None:
    data = write_zip({"a.txt": b"some text", "b.png": save(draw_page(ENGLISH[:1]), "PNG")})
    document = await parse_document(data)
    assert document.text.startswith("a.txt\n\nsome text")
    assert document.text.endswith(ENGLISH[0])
    unnamed = write_zip({"a.txt": b"some text", "b": save(draw_page(ENGLISH[:1]), "PNG")})
    assert (await parse_document(unnamed)).text.endswith(ENGLISH[0])


@pytest.mark.parametrize("size", [(1, 1), (3, 4_000), (4_000, 3), (700, 700)])
async def test_an_empty_image_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UnreadableDocument, match="no text was recognised on the image"):
        await parse_document(save(Image.new("RGB", size, "white"), "PNG"))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (write_vast_png, "too large: 40,000 × 40,000 pixels"),
        (write_vast_jpeg, "too large: 65,500 × 65,500 pixels"),
        (write_vast_tiff, "too large: 60,001 × 60,003 pixels"),
        (lambda: write_vast_png(16_000, 8), "no text was recognised on the image"),  # barely fits
        (lambda: write_picture_bomb(b"", 80_000), "its pages show nothing that could be text"),
        (lambda: write_frames(101), "more than 100 pages"),
        (lambda: write_frames(3, endless=True), "no text was recognised on the image"),
        (lambda: write_frames(3_000, "GIF"), "no text was recognised on the image"),
        (lambda: write_zip({"a.png": write_vast_png()}), "the ZIP file has no member in a supported format"),
    ],
    ids=["PNG", "JPEG", "TIFF", "large", "PDF", "frames", "endless", "animation", "ZIP"],
)
async def test_an_image_that_unpacks_to_too_much_is_refused(build: Callable[[], bytes], reason: str) -> None:
    data = build()
    assert len(data) < 3 << 20
    with pytest.raises(UnreadableDocument, match=reason):
        await parse_document(data, limits=ParseLimits(max_pages=100))


@pytest.mark.parametrize("kind", ["docx", "pptx"])
async def test_a_picture_that_unpacks_to_too_much_is_named(kind: str) -> None:
    data = write_zip({"a.txt": "A file before.", f"a.{kind}": write_pictured(kind, write_vast_png())})
    document = await parse_document(data)
    assert (BEFORE in document.text, AFTER in document.text, document.recognised) == (True, True, ())
    assert len(document.places_without_text) == 1


async def test_the_text_around_a_picture_that_unpacks_to_too_much_is_read() -> None:
    assert (await parse_document(write_picture_bomb(b"the words around it", 80_000))).text == "the words around it"
