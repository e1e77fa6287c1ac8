"""Print results to stdout and remarks to stderr, with control characters made visible.

Colours and drawing follow NO_COLOR, FORCE_COLOR and TERM=dumb, and are off if the stream is not a terminal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Stored text may contain sequences that move the cursor or change the window title: show control characters as symbols.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
# It must not change the direction of the following text on the line either.
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES |= dict.fromkeys(_TURNING, 0xFFFD)
# The same characters, if JSON does not escape them: they only occur in strings, where an escape is equivalent.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNING)}


def print_json(value: Any) -> None:
    """Print one JSON document; on a terminal indented, and without terminal sequences."""
    import orjson

    if sys.stdout.isatty():
        typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().translate(_ESCAPES))
    else:
        typer.echo(orjson.dumps(value).decode())


def remark(text: str) -> None:
    """Print a line for the user, not part of the output."""
    typer.echo(make_printable(text), err=True)


def make_printable(text: str) -> str:
    """Make control characters visible, so that stored text cannot control the terminal."""
    return text.translate(_PICTURES)


def flatten(text: str, length: int | None = None) -> str:
    """Format the text as one printable line, cut with `…` at `length`."""
    line = make_printable(" ".join(text.split()))
    return line if length is None or len(line) <= length else line[: length - 1] + "…"


def make_console(*, stderr: bool = False) -> Console:
    """A console without automatic markup, and without line breaks if the stream is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False, stderr=stderr)
    if not console.is_terminal:
        console.soft_wrap = True
    return console


def make_text(*parts: tuple[str, str]) -> Text:
    """Text with a style for each part; never markup, because stored text may look like markup."""
    from rich.text import Text

    return Text.assemble(*((make_printable(text), style) for text, style in parts))
