"""The pages of entries: their address, and the contents of their forms and lists."""

from typing import Any

from tests.console.browser import Page

LIST = "/console/entries"


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
