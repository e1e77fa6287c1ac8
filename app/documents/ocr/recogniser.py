"""Recognises pages within limits, among them those of an image file, which Pillow reads."""

import io
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from PIL import Image as pillow
from PIL import ImageOps

from app.documents.ocr.access import Draw, Image
from app.documents.ocr.layout import Found, arrange, straighten
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


LEAST_SCORE = 0.5
"""Lines below are dropped. On bad scans, a higher bound costs more text than the errors that it avoids."""
_SHORT = 2
_LEAST_SHORT_SCORE = 0.8
"""Least score of a line of one or two characters: drawings contain shapes that look like letters."""


class Engine(Protocol):
    """Finds and reads lines of text."""

    def read(self, image: Image, is_over: Callable[[], bool]) -> tuple[list[Found], bool]:
        """The lines on an image, and whether they are all; stops when `is_over`."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """The text of a page; not `complete` if the time ended before."""

    text: str
    complete: bool


class Recogniser:
    """Recognises pages until the time or the number of pages of a file is used up."""

    def __init__(
        self,
        engine: Engine,
        open_image: Callable[[bytes, ParseLimits], Iterator[Draw]],
        limits: ParseLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._clock = clock
        self._pages = 0
        self._end: float | None = None
        self.open_image = open_image

    def recognise(self, draw: Draw) -> Recognised | None:
        """Draw a page and recognise it; None if the limits are used up or the page cannot be recognised. Raises
        UnreadableDocument for a reason that the drawer of the page knows."""
        now = self._clock()
        if self._end is None:
            self._end = now + self._limits.ocr_seconds
        if now >= self._end or self._pages >= self._limits.ocr_pages:
            return None
        self._pages += 1
        end = min(self._end, now + self._limits.ocr_page_seconds)
        try:
            found, complete = self._engine.read(draw(), lambda: self._clock() >= end)
        except UnreadableDocument:
            raise
        except Exception:
            # A hostile image can make a library raise any exception; the other pages are read.
            return None
        kept = [line for line in found if _is_certain(line)]
        return Recognised(arrange(straighten(kept)), complete)


def _is_certain(line: Found) -> bool:
    length = len(line.text.strip())
    return length > 0 and line.score >= (_LEAST_SHORT_SCORE if length <= _SHORT else LEAST_SCORE)
