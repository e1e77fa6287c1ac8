"""Rules for suspicious text, and what they find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Flag = Literal["invisible_text", "zero_width", "secret", "instructions"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Suspicious characters `text[start:end]`."""

    flag: Flag
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that is looked for only in text that has one of its triggers.

    Attributes:
        name: identifies the rule.
        flag: what a match raises.
        triggers: patterns, at least one of which is in every match; short ones, since all text is compared with them.
        pattern: in the syntax of RE2, which has no backreferences and no look-around.
        reach: bytes after a trigger that a match can have; of a longer one, the rest is not found.
        check: whether a match counts, by the text of its first group that is not empty.
    """

    name: str
    flag: Flag
    triggers: tuple[str, ...]
    pattern: str
    reach: int
    check: Callable[[str], bool] | None = None
