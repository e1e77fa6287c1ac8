"""Pages of lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, and the cursor of the next one; null: this is the last page."""

    items: Sequence[T]
    next_cursor: str | None
