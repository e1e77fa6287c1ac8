"""What becomes of the lines of an export, and why some are refused."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import asyncpg

Progress = Callable[[int], None]
"""Told how many lines of a file are done."""

MOST_FAILURES = 10
REFUSALS = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, ValueError, KeyError, TypeError)
"""Failures that are the line's own fault."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A line that was refused, counted from 1, and why."""

    line: int
    error: str


@dataclass(slots=True)
class ImportOutcome:
    """What became of the lines of a file. `failures` has the first few, with their line and reason."""

    COUNTED: ClassVar[tuple[str, ...]]

    lines: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    dropped_references: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """The counts that are worth a word."""
        return {name: getattr(self, name) for name in self.COUNTED}

    def fail(self, line: int, reason: str) -> None:
        """Note a line that was refused."""
        self.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(Failure(line, reason))


@dataclass(slots=True)
class Restored(ImportOutcome):
    """What became of the lines of an export; counts are of entries unless they say otherwise."""

    COUNTED = ("created", "updated", "unchanged", "assets", "failed", "dropped_references")

    assets: int = 0


def describe_refusal(error: Exception) -> str:
    """Why a line was refused, without any of its content."""
    match error:
        case asyncpg.ForeignKeyViolationError():
            return "belongs to something that is not here"
        case asyncpg.UniqueViolationError():
            return "stands for something that another entry or asset is already"
        case asyncpg.CheckViolationError() | asyncpg.NotNullViolationError():
            return f"breaks a rule of the table: {error.constraint_name or error.column_name}"
        case binascii.Error() | asyncpg.DataError() | KeyError() | TypeError():
            return "has a field that cannot be read"
        case _:
            return str(error)
