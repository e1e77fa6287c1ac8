"""The findings of checks."""

from dataclasses import dataclass
from typing import Literal

from app.errors import ConfigurationError, KnowledgeError

Status = Literal["ok", "warning", "wrong"]

LOOK = "see the log of Postgres"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis, with a remedy unless it is ok."""

    check: str
    status: Status
    detail: str
    remedy: str | None = None


def from_error(check: str, error: KnowledgeError) -> Finding:
    """Build a finding from an error and its remedy."""
    if not isinstance(error, ConfigurationError):
        return Finding(check, "wrong", str(error), LOOK)
    remedy = f"correct {error.setting} in the environment or in the file of settings" if error.setting else LOOK
    return Finding(check, "wrong", error.fault, error.remedy or remedy)


def count(number: int, thing: str) -> str:
    """Format a number with its noun."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"
