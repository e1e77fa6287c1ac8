"""Pages as a scanner or a camera delivers them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pypdfium2
import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter

from app.documents.ocr.access import is_installed
from tests.documents.ocr.pages import save
from tests.fixtures.documents import write_pdf

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
