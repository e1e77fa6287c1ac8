"""Loads the models and libraries of text recognition, before the process is confined."""

from __future__ import annotations

from app.documents.ocr.engine import RapidEngine
from app.documents.ocr.frames import open_image
from app.documents.ocr.recogniser import Recogniser
from app.documents.parsed import ParseLimits


def load_recogniser(limits: ParseLimits) -> Recogniser:
    """A recogniser that opens no file any more; takes a second or two."""
    return Recogniser(RapidEngine(), open_image, limits)
