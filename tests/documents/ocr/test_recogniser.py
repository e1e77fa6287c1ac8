"""Text recognition: pages of images, the order of lines, and its limits."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.documents.ocr.access import RecognitionNeeded, find_recogniser, is_installed, provide
from app.documents.ocr.layout import Found, arrange, straighten
from app.documents.ocr.recogniser import Recogniser
from app.documents.parsed import ParseLimits
from app.documents.readers.images import open_image
from app.errors import UnreadableDocument
from tests.documents.ocr.pages import ListedEngine, found, save, white, write_image
from tests.fixtures.clock import FakeClock


def draw_all(data: bytes, **limits: Any) -> list[Any]:
    return [np.asarray(draw()) for draw in open_image(data, ParseLimits(**limits))]


def darkest_quarter(pixels: Any) -> tuple[bool, bool]:
    """Whether it is below, and whether it is on the right."""
    height, width = pixels.shape[:2]
    halves = pixels[: height // 2], pixels[height // 2 :]
    quarters = [half[:, start : start + width // 2].mean() for half in halves for start in (0, width // 2)]
    below, right = divmod(int(np.argmin(quarters)), 2)
    return bool(below), bool(right)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP"])
def test_each_format_is_drawn(kind: str) -> None:
    (page,) = draw_all(write_image(kind))
    assert page.shape == (40, 60, 3)
    assert page[5, 5].max() < 40
    assert page[35, 55].min() > 215


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_each_kind_of_colour_is_drawn(mode: str) -> None:
    if mode in ("I;16", "F"):
        pixels = np.full((40, 60), 60_000, np.uint16 if mode == "I;16" else np.float32)
        pixels[:20, :30] = 0
        data = save(Image.fromarray(pixels), "TIFF")
    else:
        data = write_image("TIFF" if mode in ("CMYK", "I") else "PNG", mode=mode)
    (page,) = draw_all(data)
    assert page[5, 5].max() < 40
    assert page[35, 55].min() > 215


def test_transparent_parts_are_white() -> None:
    image = Image.new("RGBA", (60, 40), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 30, 20))
    (page,) = draw_all(save(image, "PNG"))
    assert (page[5, 5].max(), page[35, 55].min()) == (0, 255)


def test_blue_comes_first() -> None:
    (page,) = draw_all(save(Image.new("RGB", (4, 4), (255, 0, 0)), "PNG"))
    assert page[0, 0].tolist() == [0, 0, 255]


@pytest.mark.parametrize(
    ("orientation", "place"), [(1, (False, False)), (3, (True, True)), (6, (False, True)), (8, (True, False))]
)
def test_a_photograph_is_turned_as_its_camera_was_held(orientation: int, place: tuple[bool, bool]) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    (page,) = draw_all(write_image("JPEG", exif=exif.tobytes()))
    assert darkest_quarter(page) == place
    (page,) = draw_all(write_image("PNG", exif=exif.tobytes()), ocr_pixels=600)
    assert darkest_quarter(page) == place


def test_a_large_image_is_made_smaller() -> None:
    for kind in ("PNG", "JPEG"):
        (page,) = draw_all(write_image(kind, (3_000, 2_000)), ocr_pixels=60_000)
        assert page.shape == (200, 300, 3)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "group4", "jpeg"])
def test_all_pages_of_a_tiff_are_drawn(compression: str) -> None:
    mode = "1" if compression == "group4" else "RGB"
    pages = [Image.new(mode, (20 + n, 20)) for n in range(4)]
    data = save(pages[0], "TIFF", save_all=True, append_images=pages[1:], compression=compression)
    assert [page.shape[1] for page in draw_all(data)] == [20, 21, 22, 23]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation_is_drawn(kind: str) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    assert len(draw_all(save(frames[0], kind, save_all=True, append_images=frames[1:]))) == 1


def test_an_image_that_unpacks_to_too_much_is_refused_before_it_is_unpacked() -> None:
    data = write_image("PNG", (3_000, 2_000))
    with pytest.raises(UnreadableDocument, match="too large: 3,000 × 2,000 pixels"):
        draw_all(data, image_bytes=23_999_999)
    assert draw_all(data, image_bytes=24_000_000)
    assert draw_all(write_image("PNG", (3_000, 2_000), "1"), image_bytes=6_000_000)


@pytest.mark.parametrize("cut", [20, 60, -40])
def test_a_damaged_image_is_refused(cut: int) -> None:
    with pytest.raises(UnreadableDocument, match="damaged or incomplete"):
        draw_all(write_image("PNG", (300, 200))[:cut])


def test_the_number_of_frames_is_limited() -> None:
    pages = [Image.new("L", (9, 9)) for _ in range(4)]
    data = save(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    with pytest.raises(UnreadableDocument, match="more than 3 pages"):
        draw_all(data, max_pages=3)


LEFT = [f"left column, line {n}" for n in range(6)]
RIGHT = [f"right column, line {n}" for n in range(6)]


def columns(angle: float = 0) -> list[Found]:
    right = [found(text, 460, 104 + 30 * n, 390, angle=angle) for n, text in enumerate(RIGHT)]
    left = [found(text, 20, 100 + 30 * n, 400, angle=angle) for n, text in enumerate(LEFT)]
    return right + left


@pytest.mark.parametrize("angle", [0, 2, -2])
def test_two_columns_are_read_one_after_the_other_under_their_heading(angle: float) -> None:
    heading = found("A heading over both columns", 20, 20, 800, height=28, angle=angle)
    footer = found("A line below both columns", 20, 400, 830, angle=angle)
    text = arrange(straighten([footer, *columns(angle), heading]))
    assert text == "\n\n".join(
        ["A heading over both columns", "\n".join(LEFT), "\n".join(RIGHT), "A line below both columns"]
    )


def test_three_columns_are_read_one_after_the_other() -> None:
    lines = [
        found(f"column {column} has line {n}", 20 + 300 * column, 20 + 30 * n, 270)
        for n in range(5)
        for column in range(3)
    ]
    text = arrange(straighten(lines))
    assert text.split("\n\n") == ["\n".join(f"column {c} has line {n}" for n in range(5)) for c in range(3)]


@pytest.mark.parametrize("angle", [0, 1.5])
def test_rows_of_a_table_stay_together(angle: float) -> None:
    cells = [("Level", "Meaning", "Hours")] + [(f"S{n}", f"a meaning of level {n}", f"{n} h") for n in range(5)]
    lines = [
        found(text, x, 20 + 30 * row, width, angle=angle)
        for row, texts in enumerate(cells)
        for text, (x, width) in zip(texts, ((20, 60), (120, 300), (600, 60)), strict=True)
    ]
    assert arrange(straighten(reversed(lines))) == "\n".join(" ".join(texts) for texts in cells)


def test_wide_steps_and_other_sizes_end_a_paragraph() -> None:
    lines = [
        found("1. Title", 20, 0, 200, height=40),
        *(found(f"first {n}", 20, 50 + 25 * n, 600) for n in range(3)),
        *(found(f"second {n}", 20, 150 + 25 * n, 600) for n in range(3)),
    ]
    text = arrange(straighten(lines))
    assert text == "1. Title\n\nfirst 0\nfirst 1\nfirst 2\n\nsecond 0\nsecond 1\nsecond 2"


def test_a_page_without_lines_has_no_text() -> None:
    assert arrange([]) == ""


TEN = [found(f"line {n}", 0, 30 * n, 200) for n in range(10)]


def make(lines: list[Any], **limits: Any) -> Recogniser:
    clock = FakeClock()
    engine = ListedEngine(lines, clock.advance)
    return Recogniser(engine, ParseLimits(**limits), clock)


def test_pages_are_recognised_until_the_time_of_the_file_is_used_up() -> None:
    recogniser = make(TEN, ocr_seconds=25)
    pages = [recogniser.recognise(white) for _ in range(4)]
    assert [page and page.complete for page in pages] == [True, True, False, None]
    assert pages[2] is not None
    assert pages[2].text.endswith("line 4")


def test_a_page_has_a_time_of_its_own() -> None:
    recogniser = make(TEN, ocr_seconds=1_000, ocr_page_seconds=3)
    pages = [recogniser.recognise(white) for _ in range(2)]
    assert [page and (page.text.count("line"), page.complete) for page in pages] == [(3, False), (3, False)]


def test_the_number_of_pages_is_limited() -> None:
    recogniser = make(TEN[:1], ocr_pages=2)
    assert [recogniser.recognise(white) is None for _ in range(3)] == [False, False, True]


def test_uncertain_lines_are_dropped() -> None:
    lines = [
        found("certain", 0, 0, 90),
        found("rather certain", 0, 30, 90, score=0.51),
        found("uncertain", 0, 60, 90, score=0.49),
        found("O", 0, 90, 20, score=0.79),
        found("7", 0, 120, 20, score=0.81),
        found(" ", 0, 150, 20),
    ]
    page = make(lines).recognise(white)
    assert page is not None
    assert page.text.split() == ["certain", "rather", "certain", "7"]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a library failed"), OSError()])
def test_a_page_that_fails_does_not_stop_the_others(error: Exception) -> None:
    def fail() -> Any:
        raise error

    recogniser = make(TEN[:1])
    assert recogniser.recognise(fail) is None
    assert recogniser.recognise(white) is not None


def test_the_reason_that_the_drawer_knows_is_passed_on() -> None:
    def refuse() -> Any:
        raise UnreadableDocument("too large")

    with pytest.raises(UnreadableDocument, match="too large"):
        make(TEN).recognise(refuse)


@pytest.fixture
def provided() -> Iterator[Callable[..., None]]:
    yield provide
    provide(None)


def test_the_readers_of_a_process_find_what_was_provided(provided: Callable[..., None]) -> None:
    recogniser = make(TEN)
    provided("here", recogniser)
    assert (find_recogniser(), is_installed()) == (recogniser, True)
    provided("absent")
    assert (find_recogniser(), is_installed()) == (None, False)
    provided("failed")
    assert (find_recogniser(), is_installed()) == (None, True)
    provided("elsewhere")
    with pytest.raises(RecognitionNeeded):
        find_recogniser()
