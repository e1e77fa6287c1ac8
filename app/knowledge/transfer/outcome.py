"""Outcomes of imports, and the reasons why lines are refused."""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import asyncpg

Progress = Callable[[int], None]
"""Called with the number of lines processed so far."""

MOST_FAILURES = 10
MOST_REASONS = 50
OTHER_REASONS = "other reasons"
REFUSALS = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.DataError,
    ValueError,
    KeyError,
    TypeError,
)
"""Exceptions that are caused by the content of a line. A policy refuses the item of an asset that does not exist."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A refused line, counted from 1, and the reason."""

    line: int
    error: str


@dataclass(slots=True)
class ImportOutcome:
    """Counts for the lines of a file.

    `failures` has the first MOST_FAILURES refused lines, `reasons` the number of refused lines by reason.
    """

    COUNTED: ClassVar[tuple[str, ...]]

    lines: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    dropped_references: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def counts(self) -> dict[str, int]:
        """The counts to report."""
        return {name: getattr(self, name) for name in self.COUNTED}

    def fail(self, line: int, reason: str) -> None:
        """Record a refused line."""
        self.failed += 1
        known = reason in self.reasons or len(self.reasons) < MOST_REASONS
        self.reasons[reason if known else OTHER_REASONS] += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(Failure(line, reason))


@dataclass(slots=True)
class Restored(ImportOutcome):
    """The outcome of a restoration; `created`, `updated` and `unchanged` count entries."""

    COUNTED = ("created", "updated", "unchanged", "assets", "failed", "dropped_references")

    assets: int = 0


def describe_refusal(error: Exception) -> str:
    """The reason why a line was refused, without any of its content."""
    match error:
        case asyncpg.ForeignKeyViolationError() | asyncpg.InsufficientPrivilegeError():
            return "refers to something that does not exist in this tenant"
        case asyncpg.UniqueViolationError():
            return "has the identity of another entry or asset"
        case asyncpg.CheckViolationError() | asyncpg.NotNullViolationError():
            return f"breaks a rule of the table: {error.constraint_name or error.column_name}"
        case binascii.Error() | asyncpg.DataError() | KeyError() | TypeError():
            return "has a field that cannot be read"
        case _:
            return str(error)
