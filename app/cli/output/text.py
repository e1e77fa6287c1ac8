"""What commands print: results on stdout; progress and remarks on stderr.

Colours and drawing follow NO_COLOR, FORCE_COLOR and TERM=dumb, and are left out where the stream is no terminal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# What is stored may hold sequences that move the cursor or retitle the window: each control sign becomes its picture.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
# Nor may it turn the order of the signs that follow it on the line.
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES |= dict.fromkeys(_TURNING, 0xFFFD)
# Of the same signs, those that JSON leaves as they are: they stand in strings alone, where an escape says the same.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNING)}


def print_json(value: Any) -> None:
    """One JSON document; on a terminal indented, and with nothing in it that commands the terminal."""
    import orjson

    if sys.stdout.isatty():
        typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().translate(_ESCAPES))
    else:
        typer.echo(orjson.dumps(value).decode())


def remark(text: str) -> None:
    """A line for the person at the terminal, kept out of the output."""
    typer.echo(make_printable(text), err=True)


def make_printable(text: str) -> str:
    """The text with control signs made visible, so that what is stored cannot command a terminal."""
    return text.translate(_PICTURES)


def flatten(text: str, length: int | None = None) -> str:
    """The text as one printable line, cut with `…` to `length`."""
    line = make_printable(" ".join(text.split()))
    return line if length is None or len(line) <= length else line[: length - 1] + "…"


def make_console(*, stderr: bool = False) -> Console:
    """A console that marks nothing up by itself, and breaks no lines where the stream is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, stderr=stderr)
    if not console.is_terminal:
        console.soft_wrap = True
    return console


def make_text(*parts: tuple[str, str]) -> Text:
    """Text with a style for each part; never markup, since what is stored may look like markup."""
    from rich.text import Text

    return Text.assemble(*((make_printable(text), style) for text, style in parts))
