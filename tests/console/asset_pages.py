"""Uploads on the pages of documents."""

from tests.console.browser import Browser, Page

LIST = "/console/assets"
PART_OF_PAGE = {"HX-Request": "true"}


async def upload(browser: Browser, name: str, data: bytes, *, part: bool = False, **form: str) -> Page:
    """Upload a file with the form of the page, or with its script if `part`."""
    return await browser.post(LIST, form, files={"file": (name, data)}, headers=PART_OF_PAGE if part else {})
