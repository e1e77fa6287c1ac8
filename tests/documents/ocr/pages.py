"""Pages as a scanner or a camera delivers them, and a recogniser without models."""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pypdfium2
import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter

from app.documents.ocr.access import is_installed
from app.documents.ocr.layout import Found
from tests.fixtures.documents import write_pdf


def found(
    text: str, x: float, y: float, width: float, *, height: float = 20, angle: float = 0, score: float = 0.99
) -> Found:
    """A line on a page that is turned by `angle` degrees around its top left."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    first, second, third, fourth = ((a * cos - b * sin, a * sin + b * cos) for a, b in corners)
    return Found((first, second, third, fourth), text, score)


class ListedEngine:
    """Finds the same lines on each image, and takes a second for each."""

    def __init__(self, lines: Sequence[Found], pass_time: Callable[[float], None] = lambda _: None) -> None:
        self._lines = lines
        self._pass_time = pass_time

    def read(self, image: Any, is_over: Callable[[], bool]) -> tuple[list[Found], bool]:
        """The lines for which there is time."""
        read: list[Found] = []
        for line in self._lines:
            if is_over():
                return read, False
            self._pass_time(1)
            read.append(line)
        return read, True


def write_image(kind: str = "PNG", size: tuple[int, int] = (60, 40), mode: str = "RGB", **options: Any) -> bytes:
    """A white image with a dark top left quarter."""
    image = Image.new("L", size, 255)
    image.paste(0, (0, 0, size[0] // 2, size[1] // 2))
    return save(image.convert(mode), kind, **options)


def save(image: Any, kind: str, **options: Any) -> bytes:
    """The bytes of an image file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def white(height: int = 40, width: int = 60) -> Any:
    """The pixels of an empty page."""
    return np.full((height, width, 3), 255, np.uint8)


needs_no_ocr = pytest.mark.skipif(is_installed(), reason="describes a service without the extra ocr")

GERMAN = [
    "Größe und Gewicht müssen für die Übergabe geprüft sein.",
    "Die Straßenschilder am Ölhafen wurden gewaschen.",
    "Änderungen gelten ab dem 3. März für alle Schiffe.",
]
ENGLISH = [
    "The harbour master keeps the keys of the western gate.",
    "Boats longer than twelve metres need two mooring lines.",
    "Payments are due on the first Tuesday of each month.",
]


def draw_page(lines: Sequence[str], *, dpi: int = 150, noise: float = 0.0, skew: float = 0.0) -> Any:
    """An image of a page with lines of Helvetica; `noise` is a standard deviation, `skew` degrees."""
    page = pypdfium2.PdfDocument(write_pdf([lines]))[0]
    image = page.render(scale=dpi / 72).to_pil().convert("RGB")
    if skew:
        image = image.rotate(skew, Image.Resampling.BICUBIC, fillcolor="white")
    if noise:
        spread = np.random.default_rng(1).normal(0, noise, (*image.size[::-1], 1))
        image = Image.fromarray(np.clip(np.asarray(image) + spread, 0, 255).astype(np.uint8))
    return image


def write_scan(pages: Sequence[Sequence[str]], **options: Any) -> bytes:
    """A PDF whose pages are images."""
    images = [draw_page(lines, **options) for lines in pages]
    return save(images[0], "PDF", save_all=True, append_images=images[1:], resolution=options.get("dpi", 150))


def join_pdfs(*files: bytes) -> bytes:
    """One PDF with the pages of several."""
    writer = PdfWriter()
    for data in files:
        writer.append(io.BytesIO(data))
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def stamp(scan: bytes, *lines: str) -> bytes:
    """The first page of a PDF with lines of text over it."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(scan)))
    writer.pages[0].merge_page(PdfReader(io.BytesIO(write_pdf([lines]))).pages[0])
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
