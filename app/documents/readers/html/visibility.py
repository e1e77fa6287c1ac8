"""Tells why a reader of a page does not see an element, from its attributes; style sheets are not evaluated."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import Any

from app.documents.parsed import HiddenReason

_DECLARATION = re.compile(r"([a-z-]+)\s*:\s*([^;]+)")
_LENGTH = re.compile(r"(-?\d{0,9}(?:\.\d{0,9})?)(px|pt|em|rem|%|vw|vh)?")
_WHITE = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)", "rgba(255,255,255,1)"})
_FAR = -900.0
_TINY = {"px": 1.0, "pt": 1.0, "em": 0.1, "rem": 0.1, "%": 10.0, None: 0.0}
_MAX_STYLE = 2_000
_MAX_ANCESTORS = 50


def find_reason(element: Any, *, styled: bool) -> HiddenReason | None:
    """The reason, None for an element that is seen; `styled`: the page has style sheets, which may set a background."""
    attributes = element.attrib
    if "hidden" in attributes:
        return "hidden_element"
    style = attributes.get("style")
    if style is None and element.tag != "font":
        return None
    reason, colour, background = _read_style(style[:_MAX_STYLE].lower() if style else "")
    if reason is not None:
        return reason
    colour = colour or "".join(attributes.get("color", "").lower().split())
    if colour and background:
        return "same_colour" if colour == background or {colour, background} <= _WHITE else None
    return "same_colour" if colour in _WHITE and _stands_on_white(element, styled) else None


@lru_cache(1_024)
def _read_style(style: str) -> tuple[HiddenReason | None, str, str]:
    """Why these declarations hide a text, and the colours of text and background."""
    values = {
        name: "".join(value.replace("!important", "").split()) for name, value in _DECLARATION.findall(style)
    }
    colour = values.get("color", "")
    background = values.get("background-color") or values.get("background", "")
    reason: HiddenReason | None = None
    if values.get("display") == "none" or values.get("visibility") in {"hidden", "collapse"}:
        reason = "hidden_element"
    elif colour == "transparent" or _read_number(values.get("opacity")) == 0:
        reason = "transparent"
    elif _is_tiny(values.get("font-size")):
        reason = "tiny"
    elif any(_is_far(values.get(name)) for name in ("left", "top", "text-indent", "margin-left", "right")):
        reason = "off_page"
    return reason, colour, background


def _read_number(value: str | None) -> float | None:
    match = _LENGTH.fullmatch(value) if value else None
    try:
        return float(match.group(1)) if match else None
    except ValueError:
        return None


def _is_tiny(value: str | None) -> bool:
    number = _read_number(value)
    if value is None or number is None:
        return False
    match = _LENGTH.fullmatch(value)
    return match is not None and number <= _TINY.get(match.group(2), 0.0)


def _is_far(value: str | None) -> bool:
    number = _read_number(value)
    return number is not None and number <= _FAR


def _stands_on_white(element: Any, styled: bool) -> bool:
    """Whether nothing around a white text is known to have, or may have, another background."""
    for around in (element, *islice(element.iterancestors(), _MAX_ANCESTORS)):
        attributes = around.attrib
        if "bgcolor" in attributes or "background" in attributes.get("style", "").lower():
            return False
        named = "class" in attributes or "id" in attributes
        if styled and named and around.tag not in {"html", "body"}:
            return False
    return True
