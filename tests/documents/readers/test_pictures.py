"""Pictures of text that are parts of office files and books: recognised at their place, or named."""

import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from PIL import Image

from app.documents.formats import detect_format
from app.documents.ocr.access import RecognitionNeeded, provide
from app.documents.ocr.layout import Found
from app.documents.ocr.recogniser import Recogniser
from app.documents.parsed import ParsedDocument, ParseLimits
from tests.documents.ocr.pages import ListedEngine, draw_page, found, join_pdfs, save, write_scan
from tests.documents.office import write_zip
from tests.documents.pictured import AFTER, BEFORE, KINDS, write_pictured
from tests.fixtures.documents import write_pdf

DEPTHS = "Depths of the quay and the pier"
TABLE = draw_page(["Quay         4 m", "Pier         3 m"], dpi=72).crop((40, 20, 440, 140))
PICTURE = save(TABLE, "PNG")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    provide("absent")
    yield
    provide(None)


def read(data: bytes, **changes: Any) -> ParsedDocument:
    return detect_format(data, "a").read(data, ParseLimits(**changes))


def recognise(data: bytes, lines: Sequence[Found] = (found(DEPTHS, 20, 0, 300),), **changes: Any) -> ParsedDocument:
    provide("here", Recogniser(ListedEngine(lines), ParseLimits(**changes)))
    return read(data, **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_text_is_recognised_at_its_place(kind: str) -> None:
    document = recognise(write_pictured(kind, PICTURE))
    around = ["| Quay |  |"] if kind == "docx" else []
    assert document.text.split("\n\n") == [BEFORE, *around, DEPTHS, AFTER]
    assert [document.text[span.start : span.end] for span in document.recognised] == [DEPTHS]
    assert (document.pages_without_text, document.places_without_text) == ((), ())


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_text_is_named_where_it_is_not_recognised(kind: str) -> None:
    data = write_pictured(kind, PICTURE)
    for document in (read(data), recognise(data, ocr_pages=0)):
        assert DEPTHS not in document.text
        if document.total_pages:
            assert (document.pages_without_text, document.places_without_text) == ((2,), ())
        else:
            (place,) = document.places_without_text
            assert document.text[:place].split() != [] != document.text[place:].split() == AFTER.split()
    provide("elsewhere")
    with pytest.raises(RecognitionNeeded):
        read(data)


PHOTO = Image.linear_gradient("L").resize((400, 120))
NOISE = Image.effect_noise((400, 120), 90)


@pytest.mark.parametrize(
    "picture",
    [
        save(PHOTO, "JPEG"),
        save(NOISE, "PNG"),
        save(Image.new("RGB", (400, 120), "white"), "PNG"),
        save(TABLE.resize((120, 36)), "PNG"),
        PICTURE[:300],
    ],
    ids=["gradient", "noise", "empty", "small", "cut"],
)
def test_a_picture_that_does_not_look_like_text_is_ignored(picture: bytes) -> None:
    provide("elsewhere")
    document = read(write_pictured("odt", picture))
    assert (document.text, document.places_without_text) == (f"{BEFORE}\n\n{AFTER}", ())


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "I;16"])
def test_each_kind_of_colour_is_looked_at(mode: str) -> None:
    picture = TABLE.convert("L") if mode == "I;16" else TABLE.convert(mode)
    if mode == "I;16":
        picture = picture.convert("I").point(lambda value: value * 256).convert("I;16")
    assert len(read(write_pictured("odt", save(picture, "PNG"))).places_without_text) == 1


def test_letters_on_transparent_ground_look_like_text() -> None:
    picture = Image.new("RGBA", TABLE.size, (0, 0, 0, 0))
    picture.paste((0, 0, 0, 255), mask=TABLE.convert("L").point(lambda value: 255 - value))
    assert len(read(write_pictured("odt", save(picture, "PNG"))).places_without_text) == 1


def test_a_logo_adds_nothing() -> None:
    document = recognise(write_pictured("odt", PICTURE), [found("ACME", 0, 0, 90)])
    assert (document.recognised, document.places_without_text) == ((), ())


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_picture_is_recognised_once_and_in_a_book_each_time(kind: str) -> None:
    document = recognise(write_pictured(kind, PICTURE, times=3))
    assert document.text.count(DEPTHS) == (3 if kind == "epub" else 1)


def test_pictures_are_looked_at_until_the_time_for_it_is_used_up() -> None:
    assert read(write_pictured("odt", PICTURE), picture_seconds=0.0).places_without_text == ()


def test_a_picture_outside_of_a_slide_is_not_read() -> None:
    with zipfile.ZipFile(io.BytesIO(write_pictured("pptx", PICTURE))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    slide = members["ppt/slides/slide2.xml"]
    moved = slide.replace(b'<a:off x="914400" y="2743200"/>', b'<a:off x="99144000" y="2743200"/>')
    assert moved != slide
    assert DEPTHS not in recognise(write_zip(members | {"ppt/slides/slide2.xml": moved})).text


def test_places_in_an_archive_are_those_of_its_files() -> None:
    data = write_zip(
        {"a.txt": "A file before.", "b.pptx": write_pictured("pptx", PICTURE), "c.odt": write_pictured("odt", PICTURE)}
    )
    document = read(data)
    slide, picture = document.places_without_text
    assert document.text[slide:].startswith(BEFORE)
    assert document.text[picture:].strip() == AFTER
    assert recognise(data).text.count(DEPTHS) == 2


def test_the_scanned_page_of_a_file_in_an_archive_is_named() -> None:
    pdf = join_pdfs(write_pdf([["A page of letters."]]), write_scan([["A line."]]))
    document = read(write_zip({"a.pdf": pdf, "b.txt": "A file after."}))
    (place,) = document.places_without_text
    assert document.text[:place].endswith("A page of letters.")
