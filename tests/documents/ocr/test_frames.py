"""Image files become pages of pixels within limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.documents.ocr.recogniser import open_image
from app.documents.parsed import ParseLimits
from app.errors import UnreadableDocument
from tests.documents.ocr.pages import save, write_image


def draw_all(data: bytes, **limits: Any) -> list[Any]:
    return [draw() for draw in open_image(data, ParseLimits(**limits))]


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


def test_the_number_of_pages_is_limited() -> None:
    pages = [Image.new("L", (9, 9)) for _ in range(4)]
    data = save(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    with pytest.raises(UnreadableDocument, match="more than 3 pages"):
        draw_all(data, max_pages=3)
