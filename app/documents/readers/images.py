"""Image files, which Pillow reads: those that are uploaded, and the pictures of other files."""

import contextlib
import io
import math
from collections.abc import Iterator
from typing import Any

from PIL import Image as pillow
from PIL import ImageOps, TiffImagePlugin, WebPImagePlugin

from app.documents.formats import name_image
from app.documents.ocr.access import Draw, Picture, explain_missing_text, find_recogniser
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.pictures import LOOKED_AT, add_recognised
from app.errors import UnreadableDocument

_DAMAGED = "the image is damaged or incomplete"
_FORMATS = ("PNG", "JPEG", "GIF", "BMP", TiffImagePlugin.TiffImageFile.format, WebPImagePlugin.WebPImageFile.format)
_SEVERAL = frozenset({"TIFF"})
"""Formats whose frames are pages; frames of the others are an animation, of which the first is read."""
_ONE_BYTE = frozenset({"1", "L", "P"})
"""Modes in which Pillow holds a pixel in one byte, not in four."""
_SOME_LINES = (200, 60)
"""Width and height in pixels of a picture that can show some lines of text."""
# The size is compared with the limit before anything is decoded.
pillow.MAX_IMAGE_PIXELS = None
# The plugins of the other formats, which the confined process cannot load.
pillow.preinit()


def parse_image(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Recognise each page of an image; pages for which no time is left are listed."""
    recogniser = find_recogniser()
    if recogniser is None:
        raise UnreadableDocument(f"the image has no text that can be read: {explain_missing_text()}")
    builder = TextBuilder(limits)
    pages = 0
    refusal: UnreadableDocument | None = None
    for draw in open_image(data, limits):
        pages += 1
        page = Picture(complete=False)
        try:
            page = recogniser.recognise(draw) or page
        except UnreadableDocument as error:
            refusal = error
        add_recognised(builder, page)
        builder.mark_page(pages)
    document = builder.finish(name_image(data) or "", total_pages=pages)
    if document.text:
        return document
    if refusal is not None:
        raise refusal
    if document.pages_without_text:
        raise UnreadableDocument("the text of the image was not recognised within the limits of time and memory")
    raise UnreadableDocument("no text was recognised on the image")


def open_image(data: bytes, limits: ParseLimits) -> Iterator[Draw]:
    """A function for each page, to be called before the next one. Raises UnreadableDocument."""
    file = _open(data)
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


def look_at(data: bytes, limits: ParseLimits) -> bytes:
    """The brightness of each pixel of a picture made small; empty if it is too small for some lines of text, or
    damaged. Raises UnreadableDocument for one that is too large."""
    with contextlib.suppress(_Damaged):
        file = _open(data)
        if file.width >= _SOME_LINES[0] and file.height >= _SOME_LINES[1]:
            _require_size(file, limits)
            with _reading():
                file.thumbnail((LOOKED_AT, LOOKED_AT))
                return bytes(_flatten(file).convert("L").tobytes())
    return b""


class _Damaged(UnreadableDocument):
    pass


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """A hostile image can make the library raise any exception."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise _Damaged(_DAMAGED) from error


def _open(data: bytes) -> Any:
    with _reading():
        return pillow.open(io.BytesIO(data), formats=_FORMATS)


def _refuse_damaged() -> Any:
    raise UnreadableDocument(_DAMAGED)


def _require_size(file: Any, limits: ParseLimits) -> None:
    if file.width * file.height * (1 if file.mode in _ONE_BYTE else 4) > limits.image_bytes:
        raise UnreadableDocument(f"the image is too large: {file.width:,} × {file.height:,} pixels")


def _draw(file: Any, limits: ParseLimits) -> Any:
    _require_size(file, limits)
    scale = min(1.0, math.sqrt(limits.ocr_pixels / (file.width * file.height)))
    size = max(1, round(file.width * scale)), max(1, round(file.height * scale))
    with _reading():
        file.draft("RGB", size)
        image = _flatten(file)
    if scale < 1:
        image.thumbnail(size, pillow.Resampling.LANCZOS, reducing_gap=2.0)
    red, green, blue = ImageOps.exif_transpose(image.convert("RGB")).split()
    return pillow.merge("RGB", (blue, green, red))


def _flatten(file: Any) -> Any:
    """An image without transparency, of 8 bits a colour."""
    if file.mode.startswith(("I", "F")):
        values = file.convert("F")
        least, most = values.getextrema()
        scale = 255 / max(most - least, 1e-9)
        return values.point(lambda value: value * scale - least * scale).convert("L")
    if file.has_transparency_data:
        image = file.convert("RGBA")
        paper = pillow.new("RGBA", image.size, "white")
        paper.alpha_composite(image)
        return paper.convert("RGB")
    return file.convert("L" if file.mode in ("1", "L") else "RGB")
