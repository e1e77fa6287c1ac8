"""The path of a person who has just started the service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser.accessibility import find_barriers
from tests.browser.conftest import Visits

if TYPE_CHECKING:
    from playwright.async_api import Route

pytestmark = pytest.mark.slow

DROP = """
([name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name, { type: "text/markdown" }));
  files.items.add(new File(["Nothing but a note."], "note.txt", { type: "text/plain" }));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    document.querySelector(".dropzone").dispatchEvent(
      new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: files }));
  }
}
"""

LATE_SECONDS = 2


async def answer_late(route: Route) -> None:
    """Deliver the list of documents late: the second file is stored while the list without it is on its way."""
    if route.request.method != "GET":
        await route.fallback()
        return
    answer = await route.fetch()
    await asyncio.sleep(LATE_SECONDS)
    await route.fulfill(response=answer)


async def test_a_first_visit_from_the_link_to_an_own_document(visits: Visits) -> None:
    visit = await visits.begin()
    page = visit.page
    await page.goto(visits.site.sign_in_link)
    assert urlsplit(page.url).path == "/console"
    assert urlsplit(page.url).query == ""
    await visit.expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    await visit.expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()
    await visit.take_picture("first-visit-1-start")

    # Results appear while the person types; the address changes after a pause.
    await page.get_by_role("searchbox").press_sequentially("first fifteen minutes of an incident", delay=20)
    await visit.expect(page.locator(".hit").first).to_be_visible()
    await visit.expect(page.locator(".hit .thumbs").first).to_be_visible()
    await visit.expect(page.get_by_role("searchbox")).to_be_focused()
    assert "query=first" in page.url
    assert await find_barriers(visit) == []
    await visit.take_picture("first-visit-2-results")

    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await visit.expect(page.locator("#hit-2 h3 a")).to_be_focused()
    await page.keyboard.press("k")
    await visit.expect(page.locator("#hit-1 h3 a")).to_be_focused()
    passage = page.locator(".hit h3 a[href*='#passage']").first
    await passage.focus()
    await page.keyboard.press("Enter")
    await visit.expect(page.locator("#passage")).to_be_in_viewport()
    await visit.take_picture("first-visit-3-passage")
    await page.go_back()

    liked = page.locator("#hit-1").get_by_role("button", name="Useful", exact=True)
    await liked.click()
    await visit.expect(liked).to_have_attribute("aria-pressed", "true")
    await visit.expect(page.locator("#hit-1")).to_contain_text("Thank you")
    await visit.expect(page.locator("#announcement")).to_have_text("Thank you")
    await visit.take_picture("first-visit-4-feedback")

    await page.get_by_role("link", name="Documents", exact=True).first.click()
    await visit.expect(page.get_by_role("heading", name="Add documents")).to_be_visible()
    await page.wait_for_load_state()  # with the script that accepts files
    await page.route("**/console/assets", answer_late)
    await page.evaluate(DROP, ["tides.md", "# Tides\n\nThe quokka tide comes twice a day."])
    await visit.expect(page.locator("#upload-answer")).to_contain_text("tides.md has been uploaded")
    await visit.expect(page.locator("#upload-answer")).to_contain_text("note.txt has been uploaded")
    for name in ("tides.md", "note.txt"):
        row = page.get_by_role("row").filter(has_text=name)
        await visit.expect(row.get_by_text("indexed", exact=True)).to_be_visible()
    await visit.take_picture("first-visit-5-documents")

    await page.get_by_role("link", name="Search", exact=True).click()
    await page.get_by_role("searchbox").fill("quokka tide")
    await page.get_by_role("searchbox").press("Enter")
    await visit.expect(page.locator("#hit-1 mark", has_text="quokka")).to_be_visible()
    await visit.expect(page.locator("#hit-1 .source")).to_contain_text("Tides")
    await visit.take_picture("first-visit-6-found")

    # The link signs in only once.
    other = await visits.begin()
    await other.page.goto(visits.site.sign_in_link)
    await visit.expect(other.page.get_by_role("alert")).to_contain_text("has been used")


async def test_a_cleared_query_shows_the_first_page_again(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    page = visit.page
    await visit.open("/console")
    await page.get_by_role("searchbox").fill("berth")
    await visit.expect(page.locator(".hit").first).to_be_visible()
    await page.get_by_role("searchbox").fill("")
    await visit.expect(page.locator(".start")).to_be_visible()
    await visit.expect(page.locator(".hit")).to_have_count(0)
