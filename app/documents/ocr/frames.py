"""The pages of an image file, through Pillow."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image as pillow
from PIL import ImageOps

from app.documents.ocr.access import Draw, Image
from app.documents.parsed import ParseLimits
from app.errors import UnreadableDocument

_DAMAGED = "the image is damaged or incomplete"
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP")
_SEVERAL = frozenset({"TIFF"})
"""Formats whose frames are pages; frames of the others are an animation, of which the first is read."""
_ONE_BYTE = frozenset({"1", "L", "P"})
"""Modes in which Pillow holds a pixel in one byte, not in four."""
# The size is compared with the limit before anything is decoded.
pillow.MAX_IMAGE_PIXELS = None
# The plugins of all formats, which the confined process cannot load.
pillow.init()


def open_image(data: bytes, limits: ParseLimits) -> Iterator[Draw]:
    """A function for each page, to be called before the next one. Raises UnreadableDocument."""
    try:
        file = pillow.open(io.BytesIO(data), formats=_FORMATS)
    except MemoryError:
        raise
    except Exception as error:
        raise UnreadableDocument(_DAMAGED) from error
    number = 0
    while True:
        yield lambda: _draw(file, limits)
        number += 1
        if file.format not in _SEVERAL:
            return
        try:
            file.seek(number)
        except EOFError:
            return
        except Exception:
            yield _refuse_damaged
            return
        if number >= limits.max_pages:
            raise UnreadableDocument(f"the image has more than {limits.max_pages:,} pages")


def _refuse_damaged() -> Image:
    raise UnreadableDocument(_DAMAGED)


def _draw(file: Any, limits: ParseLimits) -> Image:
    width, height = file.size
    if width * height * (1 if file.mode in _ONE_BYTE else 4) > limits.image_bytes:
        raise UnreadableDocument(f"the image is too large: {width:,} × {height:,} pixels")
    scale = min(1.0, math.sqrt(limits.ocr_pixels / (width * height)))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    try:
        file.draft("RGB", size)
        image = _flatten(file)
    except MemoryError:
        raise
    except Exception as error:
        raise UnreadableDocument(_DAMAGED) from error
    if scale < 1:
        image.thumbnail(size, pillow.Resampling.LANCZOS, reducing_gap=2.0)
    image = ImageOps.exif_transpose(image.convert("RGB"))
    return np.ascontiguousarray(np.asarray(image)[:, :, ::-1])


def _flatten(file: Any) -> Any:
    """An image without transparency, of 8 bits a colour."""
    if file.mode.startswith(("I", "F")):
        values = np.asarray(file, np.float32)
        least, most = float(values.min()), float(values.max())
        return pillow.fromarray(((values - least) * (255 / max(most - least, 1e-9))).astype(np.uint8))
    if file.has_transparency_data:
        image = file.convert("RGBA")
        paper = pillow.new("RGBA", image.size, "white")
        paper.alpha_composite(image)
        return paper.convert("RGB")
    return file.convert("L" if file.mode in ("1", "L") else "RGB")
