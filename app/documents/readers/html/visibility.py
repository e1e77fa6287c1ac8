"""Decide whether a reader sees an element, from its attributes and simple style rules."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from app.documents.parsed import HiddenReason

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]{1,1000})\{([^{}]{0,2000})\}")
_AT_RULE = re.compile(r"@[a-z-]+[^{};]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_SELECTOR = re.compile(r"([a-z][a-z0-9]*)?([.#][\w-]+)?")
_HIDING = re.compile(r"display|visibility|opacity|font|clip|left|top|right|indent|margin|color|height|width|transform")
_FOR_SCREEN_READERS = re.compile(r"sr-?only|visually-?hidden|screen-?reader|assistive", re.IGNORECASE)
_MAX_SOURCE = 200_000
_MAX_RULES = 2_000
_MAX_CLASSES = 20


class StyleSheets:
    """The declarations of the `style` elements of a page. Rules for some media or states are ignored."""

    def __init__(self, root: Any) -> None:
        self._declarations: dict[str, str] = {}
        source = "\n".join(element.text or "" for element in root.iter("style"))[:_MAX_SOURCE].lower()
        if "{" not in source:
            return
        source = _AT_RULE.sub("", _COMMENT.sub("", source))
        for selectors, declared in _RULE.findall(source)[:_MAX_RULES]:
            if _HIDING.search(declared):
                for selector in map(str.strip, selectors.split(",")):
                    if selector and _SELECTOR.fullmatch(selector) and not _FOR_SCREEN_READERS.search(selector):
                        before = self._declarations.get(selector)
                        self._declarations[selector] = f"{before};{declared}" if before else declared

    def find(self, element: Any) -> str:
        """The declarations for an element, "" if there are none."""
        if not self._declarations:
            return ""
        tag, attributes = element.tag, element.attrib
        names = [f".{name}" for name in attributes.get("class", "").lower().split()[:_MAX_CLASSES]]
        if "id" in attributes:
            names.append(f"#{attributes['id'].lower()}")
        keys = (tag, *(key for name in names for key in (name, f"{tag}{name}")))
        return ";".join(self._declarations[key] for key in keys if key in self._declarations)


_DECLARATION = re.compile(r"([a-z-]+)\s*:\s*([^;]+)")
_LENGTH = re.compile(r"(-?\d{0,9}(?:\.\d{0,9})?)(px|pt|em|rem|%|vw|vh)?")
_COLOURS = {
    "white": (255, 255, 255),
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
    "ghostwhite": (248, 248, 255),
    "whitesmoke": (245, 245, 245),
    "black": (0, 0, 0),
}
_SAME = 12
"""A difference that the eye does not see, of 255."""
_FAINT = 0.05
_HEX = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})")
_RGB = re.compile(r"rgba?\((\d{1,3}),(\d{1,3}),(\d{1,3})(?:,1(?:\.0*)?)?\)")
_CLIPPED = re.compile(r"inset\((?:100|[5-9]\d)(?:\.\d+)?%|(?:circle|ellipse)\(0")
_NO_RECTANGLE = re.compile(r"rect\((?:[01](?:px)?,?){4}\)")
_NO_SCALE = re.compile(r"scale[xy]?\(0(?:\.0\d*)?\)")
_MOVED = re.compile(r"translate(?:[xy]|3d)?\((-?[\d.]+px)(?:,(-?[\d.]+px))?")
_ALPHA = re.compile(r"(?:rgb|hsl)a?\((?:(?:[^(),/]{1,20},){3}|[^(),/]{1,60}/)([\d.]{1,9}%?)\)")
_HEX_ALPHA = re.compile(r"#(?:[0-9a-f]{3}0|[0-9a-f]{6}0[0-9a-c])")
"""A colour with an alpha of at most a twentieth."""
_FILTER = re.compile(r"opacity\(([^()]{1,10})\)")
_FAR = -900.0
_WHOLE_WIDTH = -100.0
_TINY = {"px": 1.0, "pt": 1.0, "em": 0.1, "rem": 0.1, "%": 10.0, None: 0.0}
_MAX_STYLE = 2_000
_MAX_ANCESTORS = 50


def find_reason(element: Any, *, styled: bool, declared: str = "") -> HiddenReason | None:
    """The reason, None for an element that is seen. `styled`: the page has style sheets, which may set a background;
    `declared`: their declarations for the element."""
    attributes = element.attrib
    if "hidden" in attributes:
        return "hidden_element"
    style = f"{declared};{attributes.get('style', '')}".strip(";")
    if not style and element.tag != "font":
        return None
    reason, colour, background = _read_style(style[:_MAX_STYLE].lower() if style else "")
    if reason is not None:
        return reason
    colour = colour or "".join(attributes.get("color", "").lower().split())
    if colour and background:
        return "same_colour" if colour == background or _are_near(colour, background) else None
    return "same_colour" if _are_near(colour, "white") and _stands_on_white(element, styled) else None


@lru_cache(1_024)
def _read_style(style: str) -> tuple[HiddenReason | None, str, str]:
    """Why these declarations hide a text, and the colours of text and background."""
    values = {name: "".join(value.replace("!important", "").split()) for name, value in _DECLARATION.findall(style)}
    colour = values.get("color", "")
    background = values.get("background-color") or values.get("background", "")
    reason: HiddenReason | None = None
    if values.get("display") == "none" or values.get("visibility") in {"hidden", "collapse"}:
        reason = "hidden_element"
    elif _is_transparent(values):
        reason = "transparent"
    elif _is_tiny(values.get("font-size")) or _NO_SCALE.match(values.get("transform", "")):
        reason = "tiny"
    elif _is_clipped(values):
        reason = "clipped"
    elif _is_off_page(values):
        reason = "off_page"
    return reason, colour, background


def _read_number(value: str | None) -> float:
    """The number of a length; NaN, which is neither equal to a number nor below it, for other values."""
    match = _LENGTH.fullmatch(value or "")
    return float(match.group(1)) if match and match.group(1) not in {"", "-", ".", "-."} else math.nan


def _is_clipped(values: Mapping[str, str]) -> bool:
    if _CLIPPED.match(values.get("clip-path", "")) or _NO_RECTANGLE.match(values.get("clip", "")):
        return True
    sizes = (values.get(name) for name in ("height", "max-height", "width", "max-width"))
    return values.get("overflow") == "hidden" and any(_read_number(size) == 0 for size in sizes)


def _is_transparent(values: Mapping[str, str]) -> bool:
    colour = values.get("color", "")
    alpha = _ALPHA.fullmatch(colour)
    filtered = _FILTER.search(values.get("filter", ""))
    return (
        colour == "transparent"
        or _HEX_ALPHA.fullmatch(colour) is not None
        or any(_is_faint(match.group(1)) for match in (alpha, filtered) if match)
        or _is_faint(values.get("opacity"))
    )


def _is_off_page(values: Mapping[str, str]) -> bool:
    """Whether a text is moved to the left of the page or above it; an indent in percent is one of the own width."""
    moved = _MOVED.search(values.get("transform", ""))
    indent = values.get("text-indent", "")
    places = [values.get(name) for name in ("left", "top", "text-indent", "margin-left", "right")]
    places.extend(moved.groups() if moved else ())
    indented = indent.endswith("%") and _read_number(indent) <= _WHOLE_WIDTH
    return indented or any(_read_number(place) <= _FAR for place in places)


def _is_faint(value: str | None) -> bool:
    return _read_number(value) <= (_FAINT if value and "%" not in value else 100 * _FAINT)


def _are_near(one: str, other: str) -> bool:
    """Whether two colours look the same; unknown ones do not."""
    first, second = _read_colour(one), _read_colour(other)
    if first is None or second is None:
        return False
    return all(abs(a - b) <= _SAME for a, b in zip(first, second, strict=True))


def _read_colour(value: str) -> tuple[int, ...] | None:
    if value in _COLOURS:
        return _COLOURS[value]
    if match := _HEX.fullmatch(value):
        digits = match.group(1)
        pairs = [2 * c for c in digits] if len(digits) == 3 else [digits[i : i + 2] for i in (0, 2, 4)]
        return tuple(int(pair, 16) for pair in pairs)
    match = _RGB.fullmatch(value)
    return tuple(map(int, match.groups())) if match else None


def _is_tiny(value: str | None) -> bool:
    match = _LENGTH.fullmatch(value or "")
    return match is not None and _read_number(value) <= _TINY.get(match.group(2), 0.0)


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
