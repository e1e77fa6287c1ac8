"""The paragraph and character styles of a Word document, as far as they change what its text is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.documents.readers.office.ooxml import find_children

# Names of heading styles: Word writes the English one; other programs write that of the user's language.
_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|encabezado|titolo|intestazione|kop|rubrik|overskrift|otsikko|nagłówek|"
    r"nadpis|naslov|címsor|titlu|başlık|заголовок|επικεφαλίδα|标题|標題|見出し|제목)[ \u00a0]?([1-9])$"
)
_TITLE = frozenset(
    {
        "title",
        "titel",
        "titre",
        "título",
        "titulo",
        "titolo",
        "tytuł",
        "название",
        "标题",
        "標題",
        "表題",
        "제목",
    }
)
_CONTENTS = re.compile(r"(?:toc|verzeichnis|tm|tdc|sommario|inhopg|spis treści|содержание) ?\d$|contents \d$")
_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Style:
    """What a style means for a paragraph or run; None: not stated.

    Attributes:
        level: of a heading, from 1; 0 for the document's title.
        number: the id of its numbering, and the level in it.
        hidden: whether its text is vanished.
        contents: whether it is a line of a table of contents.
    """

    level: int | None = None
    number: tuple[str, int | None] | None = None
    hidden: bool | None = None
    contents: bool = False


def read_styles(root: Any) -> dict[str, Style]:
    """The styles by id, each with what it inherits through `basedOn`."""
    own: dict[str, Style] = {}
    parents: dict[str, str] = {}
    for style in find_children(root, "style") if root is not None else ():
        key = next((str(value) for name, value in style.attrib.items() if name.endswith("}styleId")), "")
        own[key] = _read_style(style)
        parents[key] = next((read_value(item) for item in find_children(style, "basedOn")), "")
    return {key: _inherit(key, own, parents) for key in own}


def read_value(element: Any) -> str:
    """The attribute `val` of an element."""
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}val")), "")


def is_on(element: Any) -> bool:
    """The value of a switch, which is on when no value is stated."""
    return read_value(element) not in {"0", "false", "off"}


def read_level(element: Any) -> int | None:
    """The heading level of `outlineLvl`; None for body text."""
    value = read_value(element)
    return int(value) + 1 if value.isdecimal() and int(value) < 9 else None


def read_number(properties: Any) -> tuple[str, int | None] | None:
    """The numbering in `numPr`: its id, and the level in it if that is stated."""
    number = next((read_value(item) for item in find_children(properties, "numId")), None)
    level = next((read_value(item) for item in find_children(properties, "ilvl")), "")
    if number is None:
        return None
    return number, int(level) if level.isdecimal() and len(level) < 3 else None


def _read_style(style: Any) -> Style:
    name = next((read_value(item).lower() for item in find_children(style, "name")), "")
    heading = _HEADING.match(name)
    level = next((read_level(item) for item in find_children(style, "pPr", "outlineLvl")), None)
    if name in _TITLE:
        level = 0
    elif heading:
        level = int(heading.group(1))
    return Style(
        level,
        next((read_number(item) for item in find_children(style, "pPr", "numPr")), None),
        next((is_on(item) for item in find_children(style, "rPr", "vanish")), None),
        _CONTENTS.match(name) is not None,
    )


def _inherit(key: str, own: Mapping[str, Style], parents: Mapping[str, str]) -> Style:
    style, ancestor = own[key], parents.get(key, "")
    for _ in range(_DEPTH):
        above = own.get(ancestor)
        if above is None:
            break
        style = replace(
            style,
            level=above.level if style.level is None else style.level,
            number=above.number if style.number is None else style.number,
            hidden=above.hidden if style.hidden is None else style.hidden,
        )
        ancestor = parents.get(ancestor, "")
    return style
