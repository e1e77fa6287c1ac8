"""The style sheets keep to one scale of type, one of space, and the named colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.console.rendering import FOLDER

SHEETS = sorted((FOLDER / "static").glob("*.css"))
DECLARATION = re.compile(r"(?<![\w-])(?P<name>-{0,2}[a-z][a-z-]*):\s*(?P<value>[^;{}]+)(?=[;}])")
SPACE = re.compile(r"(?:(?:scroll-)?(?:margin|padding)(?:-[a-z-]+)?|(?:row-|column-)?gap)")
SPACES = re.compile(
    r"var\(--[a-z0-9]+\)|0|auto|-?\d*\.?\d+em|-?[123]px|calc\([^()]*(?:\([^()]*\)[^()]*)*\)|clamp\(.*\)"
)
TYPE = re.compile(r"var\(--text-[a-z0-9]+\)|inherit|\d*\.?\d+em")
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\(|\b(?:white|black|red|gr[ae]y)\b")


def declarations(sheet: Path) -> Iterator[tuple[str, str]]:
    """Name and value of each declaration of a style sheet outside `:root`, where the scales themselves are."""
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r":root\s*\{[^}]*\}", "", text)
    for found in DECLARATION.finditer(text):
        yield found["name"], found["value"].removesuffix("!important").strip()


def parts_of(value: str) -> list[str]:
    """The parts of a value between spaces outside parentheses."""
    return re.findall(r"(?:[^\s()]|\([^()]*(?:\([^()]*\)[^()]*)*\))+", value)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_space_is_taken_from_its_scale(sheet: Path) -> None:
    given = [(n, v) for n, v in declarations(sheet) if SPACE.fullmatch(n)]
    assert len(given) > 10
    assert [(n, v) for n, v in given if not all(SPACES.fullmatch(part) for part in parts_of(v))] == []


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_sizes_of_type_are_taken_from_their_scale(sheet: Path) -> None:
    given = [value for name, value in declarations(sheet) if name == "font-size"]
    assert len(given) > 5
    assert [value for value in given if not TYPE.fullmatch(value)] == []


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_colours_are_named_for_light_and_dark(sheet: Path) -> None:
    assert [(n, v) for n, v in declarations(sheet) if COLOUR.search(v)] == []


def test_both_themes_name_the_same_colours() -> None:
    text = (FOLDER / "static" / "console.css").read_text("utf-8")
    light, dark = (
        {found["name"]: found["value"] for found in DECLARATION.finditer(block)}
        for block in re.findall(r":root\s*\{([^}]*\})", text)
    )
    colours = {name for name, value in light.items() if value.startswith("#")}
    assert len(colours) > 15
    assert colours == {name for name, value in dark.items() if value.startswith("#")}
