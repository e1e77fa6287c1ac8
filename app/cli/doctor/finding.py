"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "wrong"]

REMEDIES = {"; run: ": "run: ", "; remedy: ": "", "; set ": "set ", "; see ": "see ", "; ": ""}
"""How a remedy begins in an error's text, the surest sign first, and what of that it keeps."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis; what is not ok has a remedy."""

    check: str
    status: Status
    detail: str
    remedy: str | None = None


def from_error(check: str, error: Exception) -> Finding:
    """A finding from an error whose one line ends with the remedy, after a semicolon or a colon before a command."""
    text = str(error)
    for mark, verb in REMEDIES.items():
        detail, separator, remedy = text.partition(mark)
        if separator:
            return Finding(check, "wrong", detail, verb + remedy)
    return Finding(check, "wrong", text, _remedy(text))


def _remedy(text: str) -> str:
    setting, separator, _ = text.partition(": ")
    named = separator and setting.isupper() and " " not in setting
    return f"mend {setting} in the environment or in .env" if named else "see the log of Postgres"


def count(number: int, thing: str) -> str:
    """A number and its noun."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"
