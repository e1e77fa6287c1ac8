"""The style sheets within a page, as far as their rules name one class, one id or one element."""

from __future__ import annotations

import re
from typing import Any

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]{1,1000})\{([^{}]{0,2000})\}")
_AT_RULE = re.compile(r"@[a-z-]+[^{};]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
_SELECTOR = re.compile(r"([a-z][a-z0-9]*)?([.#][\w-]+)?")
_HIDING = re.compile(
    r"display|visibility|opacity|font|clip|left|top|right|indent|margin|color|height|width|transform"
)
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
        for count, (selectors, declared) in enumerate(_RULE.findall(source)):
            if count >= _MAX_RULES:
                break
            if _HIDING.search(declared):
                for selector in selectors.split(","):
                    self._add(selector.strip(), declared)

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

    def _add(self, selector: str, declared: str) -> None:
        match = _SELECTOR.fullmatch(selector)
        if match and selector and not _FOR_SCREEN_READERS.search(selector):
            before = self._declarations.get(selector)
            self._declarations[selector] = f"{before};{declared}" if before else declared
