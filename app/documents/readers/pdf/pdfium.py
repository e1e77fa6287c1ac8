"""PDFium's functions, called with plain numbers: a call takes a third of a microsecond."""

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import pypdfium2
from pypdfium2 import raw

from app.errors import UnreadableDocument

_POINTER, _INT, _UINT = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
_FLOAT, _DOUBLE = ctypes.c_float, ctypes.c_double


def _declare(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    # pypdfium2 converts each argument to an object of its own type, which takes longer than the call.
    address = ctypes.cast(function, _POINTER).value
    assert address is not None
    declared: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(address)
    return declared


count_characters = _declare(raw.FPDFText_CountChars, _INT, _POINTER)
get_unicode = _declare(raw.FPDFText_GetUnicode, _UINT, _POINTER, _INT)
get_text_object = _declare(raw.FPDFText_GetTextObject, _POINTER, _POINTER, _INT)
get_loose_box = _declare(raw.FPDFText_GetLooseCharBox, _INT, _POINTER, _INT, _POINTER)
get_origin = _declare(raw.FPDFText_GetCharOrigin, _INT, _POINTER, _INT, _POINTER, _POINTER)
get_font_size = _declare(raw.FPDFText_GetFontSize, _DOUBLE, _POINTER, _INT)
get_matrix = _declare(raw.FPDFText_GetMatrix, _INT, _POINTER, _INT, _POINTER)
get_render_mode = _declare(raw.FPDFTextObj_GetTextRenderMode, _INT, _POINTER)
get_font = _declare(raw.FPDFTextObj_GetFont, _POINTER, _POINTER)
get_font_name = _declare(raw.FPDFFont_GetBaseFontName, ctypes.c_size_t, _POINTER, _POINTER, ctypes.c_size_t)
get_font_flags = _declare(raw.FPDFFont_GetFlags, _INT, _POINTER)
get_fill_colour = _declare(raw.FPDFPageObj_GetFillColor, _INT, _POINTER, *[_POINTER] * 4)
count_objects = _declare(raw.FPDFPage_CountObjects, _INT, _POINTER)
get_object = _declare(raw.FPDFPage_GetObject, _POINTER, _POINTER, _INT)
count_form_objects = _declare(raw.FPDFFormObj_CountObjects, _INT, _POINTER)
get_form_object = _declare(raw.FPDFFormObj_GetObject, _POINTER, _POINTER, ctypes.c_ulong)
get_type = _declare(raw.FPDFPageObj_GetType, _INT, _POINTER)
get_bounds = _declare(raw.FPDFPageObj_GetBounds, _INT, _POINTER, *[_POINTER] * 4)
get_object_matrix = _declare(raw.FPDFPageObj_GetMatrix, _INT, _POINTER, _POINTER)
get_content_id = _declare(raw.FPDFPageObj_GetMarkedContentID, _INT, _POINTER)
open_structure = _declare(raw.FPDF_StructTree_GetForPage, _POINTER, _POINTER)
close_structure = _declare(raw.FPDF_StructTree_Close, None, _POINTER)
count_top_elements = _declare(raw.FPDF_StructTree_CountChildren, _INT, _POINTER)
get_top_element = _declare(raw.FPDF_StructTree_GetChildAtIndex, _POINTER, _POINTER, _INT)
count_children = _declare(raw.FPDF_StructElement_CountChildren, _INT, _POINTER)
get_child = _declare(raw.FPDF_StructElement_GetChildAtIndex, _POINTER, _POINTER, _INT)
get_child_content_id = _declare(raw.FPDF_StructElement_GetChildMarkedContentID, _INT, _POINTER, _INT)
get_element_type = _declare(raw.FPDF_StructElement_GetType, ctypes.c_ulong, _POINTER, _POINTER, ctypes.c_ulong)
get_draw_mode = _declare(raw.FPDFPath_GetDrawMode, _INT, _POINTER, _POINTER, _POINTER)
count_segments = _declare(raw.FPDFPath_CountSegments, _INT, _POINTER)
get_segment = _declare(raw.FPDFPath_GetPathSegment, _POINTER, _POINTER, _INT)
get_segment_type = _declare(raw.FPDFPathSegment_GetType, _INT, _POINTER)
get_point = _declare(raw.FPDFPathSegment_GetPoint, _INT, _POINTER, _POINTER, _POINTER)

has_transparency = _declare(raw.FPDFPageObj_HasTransparency, _INT, _POINTER)
get_clip_path = _declare(raw.FPDFPageObj_GetClipPath, _POINTER, _POINTER)
count_clip_paths = _declare(raw.FPDFClipPath_CountPaths, _INT, _POINTER)
count_clip_segments = _declare(raw.FPDFClipPath_CountPathSegments, _INT, _POINTER, _INT)
get_clip_segment = _declare(raw.FPDFClipPath_GetPathSegment, _POINTER, _POINTER, _INT, _INT)
get_pixel_size = _declare(raw.FPDFImageObj_GetImagePixelSize, _INT, _POINTER, _POINTER, _POINTER)
draw_image = _declare(raw.FPDFImageObj_GetRenderedBitmap, _POINTER, _POINTER, _POINTER, _POINTER)

Matrix = tuple[float, float, float, float, float, float]


class Numbers:
    """Memory for the numbers that one call returns; `at` has the address of each."""

    def __init__(self, kind: Any, count: int) -> None:
        self.values = (kind * count)()
        first, size = ctypes.addressof(self.values), ctypes.sizeof(kind)
        self.at = [first + size * index for index in range(count)]


floats, doubles, integers = (partial(Numbers, kind) for kind in (_FLOAT, _DOUBLE, _UINT))


def read_boxes(text_page: int, characters: Sequence[int]) -> list[float]:
    """Left, top, right and bottom of each of the characters, one after the other."""
    boxes = floats(4 * len(characters))
    deque(map(get_loose_box, repeat(text_page, len(characters)), characters, boxes.at[::4]), maxlen=0)
    return list(boxes.values)


def read_origins(text_page: int, characters: Sequence[int]) -> list[float]:
    """The place of the base line at which each of the characters begins."""
    places = doubles(2 * len(characters))
    deque(map(get_origin, repeat(text_page, len(characters)), characters, places.at[::2], places.at[1::2]), maxlen=0)
    return list(places.values)


def find_address(handle: Any) -> int:
    """The address behind a handle of pypdfium2."""
    return ctypes.cast(handle, _POINTER).value or 0


def read_name(font: int) -> str:
    """The name of a font, "" if it has none."""
    buffer = ctypes.create_string_buffer(128)
    get_font_name(font, ctypes.addressof(buffer), 128)
    return buffer.value.decode("latin-1")


def read_element_type(element: int) -> str:
    """The type of an element of the structure tree, as in `H1`, "" if it has none."""
    buffer = ctypes.create_string_buffer(64)
    size = get_element_type(element, ctypes.addressof(buffer), 64)
    return buffer.raw[: size - 2].decode("utf-16-le", "replace") if 2 < size <= 64 else ""


def open_document(data: bytes) -> Any:
    """Raises UnreadableDocument when the PDF is encrypted, empty or damaged."""
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise UnreadableDocument("the PDF is encrypted; save it without a password") from error
        if error.err_code == raw.FPDF_ERR_SUCCESS:
            raise UnreadableDocument("the PDF has no pages") from error
        raise UnreadableDocument("the PDF is damaged or incomplete") from error


_TYPED = {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT}


def flatten_fields(page: Any) -> bool:
    """Make the filled fields of forms, and notes that are typed on the page, part of its content; false without any."""
    for place in range(min(raw.FPDFPage_GetAnnotCount(page.raw), 1_000)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, place)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if kind in _TYPED:
            return bool(raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS)
    return False
