"""What can happen in the middle of a search: no network, no session, Back, a link from another site."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser.accessibility import find_barriers
from tests.browser.conftest import Visits
from tests.browser.visit import Visit

if TYPE_CHECKING:
    from playwright.async_api import Route

pytestmark = pytest.mark.slow

OFFLINE = ("console: htmx:afterRequest", "console: htmx:sendError", "console: Failed to load resource: net::")


async def abort(route: Route) -> None:
    await route.abort("internetdisconnected")


async def test_a_search_without_network_names_the_problem_until_it_works(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    page = visit.page
    await visit.open("/console?query=berth")
    await page.route("**/console", abort)
    await page.get_by_role("searchbox").fill("berth 3")
    await visit.expect(page.locator("#problem")).to_contain_text("The service cannot be reached")
    assert await find_barriers(visit) == []
    await page.unroute("**/console")
    await page.get_by_role("searchbox").press("Enter")
    await visit.expect(page.locator("#problem")).to_be_empty()
    await visit.expect(page.locator("#answer")).to_have_attribute("data-address", "/console?query=berth+3")
    visit.faults[:] = [fault for fault in visit.faults if not fault.startswith(OFFLINE)]


async def test_back_from_a_result_leads_to_a_search_that_was_only_typed(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    page = visit.page
    await visit.open("/console")
    await page.route("**/console", hold_the_settled_search)
    await page.get_by_role("searchbox").fill("berth")
    await visit.expect(page.locator(".hit").first).to_be_visible()
    assert urlsplit(page.url).query == "", "only the search for the record has an address"
    await page.locator("#hit-1 h3 a").click()
    await page.wait_for_url("**/console/*/**")
    await page.go_back()
    await visit.expect(page.get_by_role("searchbox")).to_have_value("berth")
    await visit.expect(page.locator("#hit-1")).to_be_visible()
    await page.go_back()
    await visit.expect(page.locator(".start")).to_be_visible()
    await visit.expect(page.get_by_role("searchbox")).to_have_value("")


async def test_back_pressed_twice_in_a_row_shows_the_page_of_the_address(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    page = visit.page
    await visit.open("/console")
    await search_by_enter(visit, "berth")
    await search_by_enter(visit, "boat")
    await page.locator("#hit-1 h3 a").click()
    await page.wait_for_url("**/console/*/**")
    # The second time comes before the script of the page that the first one loads.
    held = asyncio.Event()
    await page.route("**/console.js*", partial(release_later, held))
    await page.go_back(wait_until="commit")
    await page.evaluate("history.back()")
    await page.wait_for_url("**/console?query=berth", wait_until="commit")
    held.set()
    await visit.expect(page.get_by_role("searchbox")).to_have_value("berth")
    await visit.expect(page.locator("#answer")).to_have_attribute("data-address", "/console?query=berth")


async def hold_the_settled_search(route: Route) -> None:
    """Let the searches while one types through, and leave the one for the record without an answer."""
    if route.request.headers.get("hx-trigger") != "settled":
        await route.fallback()


async def search_by_enter(visit: Visit, query: str) -> None:
    box = visit.page.get_by_role("searchbox")
    await box.fill(query)
    await box.press("Enter")
    await visit.expect(visit.page.locator("#answer")).to_have_attribute("data-address", f"/console?query={query}")
    await visit.page.wait_for_url(f"**/console?query={query}")


async def release_later(held: asyncio.Event, route: Route) -> None:
    await held.wait()
    await route.continue_()


async def test_text_that_is_typed_stays_when_the_session_has_ended(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    page = visit.page
    await visit.open("/console")
    await page.context.clear_cookies()
    await page.get_by_role("searchbox").press_sequentially("berth", delay=20)
    await visit.expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
    await visit.expect(page.get_by_role("searchbox")).to_have_value("berth")
    await visit.expect(page.get_by_role("alert").get_by_role("link")).to_have_attribute("target", "_blank")


async def test_a_link_of_another_site_finds_the_visitor_signed_in(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    port = urlsplit(visits.site.address).port
    visit.also = f"http://localhost:{port}"
    page = visit.page
    # To the browser, this name is another site.
    await page.goto(f"{visit.also}/problems")
    await page.evaluate(
        "href => document.body.append(Object.assign(document.createElement('a'), {href, textContent: 'shared'}))",
        f"{visits.site.address}/console?query=berth",
    )
    await page.get_by_role("link", name="shared").click()
    await visit.expect(page.locator("#hit-1")).to_be_visible()
    await page.go_back()
    await page.wait_for_url(f"{visit.also}/problems")


async def test_pages_cannot_be_read_after_signing_out(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    page = visit.page
    await visit.open("/console?query=berth")
    await page.get_by_role("button", name="Sign out").click()
    await visit.expect(page.get_by_label("Token")).to_be_visible()
    await page.go_back()
    await visit.expect(page.get_by_label("Token")).to_be_visible()
    assert await page.locator(".hit").count() == 0
