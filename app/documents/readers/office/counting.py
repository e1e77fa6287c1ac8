"""Numbers of lists as letters and Roman numerals."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def write_number(number: int, kind: str) -> str:
    """A number in a format of Word: decimal, decimalZero, lowerLetter, upperLetter, lowerRoman or upperRoman."""
    if kind in {"lowerLetter", "upperLetter"} and number > 0:
        text = chr(ord("a") + (number - 1) % 26) * min(1 + (number - 1) // 26, 5)
    elif kind in {"lowerRoman", "upperRoman"} and 0 < number < 4000:
        text = _write_roman(number)
    else:
        return f"{number:02}" if kind == "decimalZero" else str(number)
    return text.upper() if kind.startswith("upper") else text


def _write_roman(number: int) -> str:
    parts = []
    for value, sign in _ROMAN:
        parts.append(sign * (number // value))
        number %= value
    return "".join(parts)
