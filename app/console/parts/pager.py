"""Links between the pages of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.knowledge.paging import Page

PAGE_SIZE = 25
"""Items per page of a list."""


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of the first page, if this is another one, and of the next page."""

    first: str | None
    following: str | None


def page_links(address: str, page: Page[Any], cursor: str, given: Mapping[str, str]) -> PageLinks:
    """Build the links of a page; `cursor` is empty for the first page, and `given` are the filters of the list."""
    more = page.next_cursor
    return PageLinks(
        first=_address(address, given) if cursor else None,
        following=_address(address, {**given, "cursor": more}) if more else None,
    )


def _address(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(parameters)}" if parameters else address
