"""Text recognition in this process; the reader of a file asks here for the recogniser.

Each process that reads a file loads this module, so it loads no other part of text recognition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from app.documents.ocr.recogniser import Recogniser

INSTALL = "its text is recognised where the service has the extra `ocr`"
Image = Any
"""Pixels as an array of height, width, and blue, green and red, a byte each."""
Draw = Callable[[], Image]
Availability = Literal["absent", "elsewhere", "here", "failed"]
"""State of the recogniser: not installed, only in another process, in this process, or failed on this file before."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The text that was recognised on a page or picture; not `complete` if it shows text that was not."""

    text: str = ""
    complete: bool = True


class RecognitionNeeded(Exception):
    """The file has pages that only another process can recognise."""


_recogniser: Recogniser | None = None
_availability: Availability | None = None


def is_installed() -> bool:
    """Whether the extra `ocr` is installed. The confined process cannot check; it gets the answer from the service."""
    return _is_found() if _availability is None else _availability != "absent"


@cache
def _is_found() -> bool:
    return find_spec("rapidocr") is not None


def provide(availability: Availability | None, recogniser: Recogniser | None = None) -> None:
    """Set what `find_recogniser` returns in this process; with None, the service is asked what is installed."""
    global _availability, _recogniser
    _availability, _recogniser = availability, recogniser


def find_recogniser() -> Recogniser | None:
    """The recogniser of this process; None if there is none. Raises RecognitionNeeded if another process has one."""
    if _availability == "elsewhere":
        raise RecognitionNeeded
    return _recogniser


def explain_missing_text() -> str:
    """Why pages without text have not been recognised, as the end of a sentence."""
    if _availability is None or _availability == "absent":
        return f"it seems to be scanned, and {INSTALL}"
    return "it seems to be scanned, and its text was not recognised within the limits of time and memory"
