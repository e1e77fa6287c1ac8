"""What tests of several pages send, and what they read from a page."""

from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams

from app.auth.principal import Role
from app.console.search_form import SearchForm
from tests.console.browser import Browser, Page
from tests.fixtures.http.callers import Caller, make_token

ASSETS, ENTRIES = "/console/assets", "/console/entries"
PART_OF_PAGE = {"HX-Request": "true"}


async def upload(browser: Browser, name: str, data: bytes, *, part: bool = False, **form: str) -> Page:
    """Upload a file with the form of the page, or with its script if `part`."""
    return await browser.post(ASSETS, form, files={"file": (name, data)}, headers=PART_OF_PAGE if part else {})


def fields(page: Page) -> dict[str, Any]:
    """The fields that a browser would send for an unchanged form."""
    form = page.one("main form[method=post]")
    # A browser drops the first line feed of a text area; the parser of these tests does not.
    areas = {area.get("name") for area in page.all("main textarea")}
    return {n: v.removeprefix("\n") if n in areas else v for n, v in form.form_values()}


def facts(page: Page) -> dict[str, str]:
    """The contents of the lists of facts."""
    return dict(zip(page.texts("dl.facts dt"), page.texts("dl.facts dd"), strict=True))


def entry_id(page: Page) -> str:
    """The id in the target address of a form."""
    assert page.status == 303, page.text
    return str(page.answer.headers["location"]).split("?")[0].rpartition("/")[2]


def form_of(address: str) -> SearchForm:
    return SearchForm.read(QueryParams(urlsplit(address).query))


def search_id(page: Page) -> str:
    return str(page.one(".search-id").text_content())


def join(admin: Caller, subject: str, *groups: str, role: Role = Role.CREATOR) -> Caller:
    token = make_token(admin.tenant_id, role, subject=subject, groups=groups)
    return Caller(admin.http, admin.tenant_id, token)


def offer(page: Page) -> dict[str, str]:
    """The form of a page that is refused because it shows everything in the tenant."""
    assert page.status == 403, page.text
    form = page.one("main form[action='/console/everything']")
    return dict(form.form_values())
