"""The browser's tests visit every page that there is; this needs no browser."""

import re

from tests.browser.pages import UNKNOWN, Stock, tenant_pages
from tests.console.pages import PAGES

NOT_PAGES = {
    "/console/assets/{asset_id}/content": "a file",
    "/console/usage/days.csv": "a file",
    "/console/assets/progress": "a part of the list of documents",
    "/console/saved-searches/{saved_search_id}/run": "a redirect to the search page",
}


def test_every_page_is_visited() -> None:
    stock = Stock(*[str(UNKNOWN)] * 5)
    visited = {path.partition("?")[0] for path in tenant_pages(stock).values()}
    expected = {page.partition(" ")[2] for page in PAGES if page.startswith("GET ")} - set(NOT_PAGES)
    missing = [
        page
        for page in expected
        if not any(re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(page)), path) for path in visited)
    ]
    assert missing == []
