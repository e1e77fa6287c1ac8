"""The links below a page of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.knowledge.paging import Page

PAGE_SIZE = 25
"""Items of a list on one page."""


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of the first page, where this is another one, and of the page that follows."""

    first: str | None
    following: str | None


def page_links(address: str, page: Page[Any], cursor: str, given: Mapping[str, str]) -> PageLinks:
    """The links of a page; `cursor` is its own, empty for the first, and `given` is what the list is filtered by."""
    more = page.next_cursor
    return PageLinks(
        first=_address(address, given) if cursor else None,
        following=_address(address, {**given, "cursor": more}) if more else None,
    )


def _address(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(parameters)}" if parameters else address
