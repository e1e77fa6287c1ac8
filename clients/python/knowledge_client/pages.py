"""Lists that are fetched page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from knowledge_client.exchange import Exchange

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Pages: TypeAlias = Callable[[str | None], Exchange[tuple[Sequence[T], str | None]]]
"""Reads the page at a cursor, the first at None: its items, and the next page's cursor or None."""


class Page(Protocol[T_co]):
    """A page of a list."""

    @property
    def items(self) -> Sequence[T_co]:
        """The items."""
        ...

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page, or None."""
        ...


def follow(listing: Callable[..., Exchange[Page[T]]]) -> Pages[T]:
    """The pages of a list whose call takes a `cursor`."""

    def read(cursor: str | None) -> Exchange[tuple[Sequence[T], str | None]]:
        page = yield from listing(cursor=cursor)
        return page.items, page.next_cursor

    return read
