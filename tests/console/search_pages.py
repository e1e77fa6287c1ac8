"""The contents of the addresses of search pages."""

from urllib.parse import urlsplit

from starlette.datastructures import QueryParams

from app.console.search_form import SearchForm
from tests.console.browser import Page


def form_of(address: str) -> SearchForm:
    return SearchForm.read(QueryParams(urlsplit(address).query))


def search_id(page: Page) -> str:
    """The id of the search that a page shows."""
    return str(page.one(".search-id").text_content())
