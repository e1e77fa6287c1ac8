"""Lists that are fetched page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from knowledge_client.exchange import Exchange

T = TypeVar("T")

Pages: TypeAlias = Callable[[str | None], Exchange[tuple[Sequence[T], str | None]]]
"""Reads the page at a cursor, the first at None: its items, and the next page's cursor or None."""
