"""The interactive documentation, for a person with a token and without internet access."""

import json

import pytest

from tests.browser.conftest import Visits
from tests.browser.visit import Visit

SEARCH = "#operations-search-search"


async def authorise(visit: Visit, token: str) -> None:
    page = visit.page
    await page.get_by_role("button", name="Authorize").first.click()
    await page.locator(".auth-container input").fill(token)
    await page.locator(".auth-btn-wrapper .authorize").click()
    await page.locator(".auth-btn-wrapper .btn-done").click()


async def execute_search(visit: Visit, status: int) -> str:
    """Run the search in the form, expect this status, and return the body that is shown."""
    answer = visit.page.locator(f"{SEARCH} .live-responses-table")
    await visit.page.locator(f"{SEARCH} .execute").click()
    await visit.expect(answer.locator("tr.response td.response-col_status").first).to_contain_text(str(status))
    return str(await answer.locator("tr.response td.response-col_description pre").first.inner_text())


async def test_docs_load_without_internet(visits: Visits) -> None:
    visit = await visits.begin()
    await visit.open("/docs")
    await visit.expect(visit.page.locator(SEARCH)).to_be_visible()
    assert await visit.page.title() == "Knowledge search: try it"
    assert "GET /openapi.json" in visit.requests


@pytest.mark.slow
async def test_docs_let_a_person_authorise_and_search(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin()
    await visit.open("/docs")
    block = visit.page.locator(SEARCH)
    await block.locator(".opblock-summary-control").click()
    assert json.loads(await execute_search(visit, 401))["title"] == "Unauthorized"

    await authorise(visit, admin_token)
    editor = block.locator("textarea.body-param__text")
    assert json.loads(await editor.input_value())["query"] == "how do I order routes in vercel.json"
    await editor.fill(json.dumps({"query": "how do we roll back a deploy", "limit": 2}))
    answer = json.loads(await execute_search(visit, 200))
    assert len(answer["results"]) == 2
    await visit.take_picture("docs-search")


@pytest.mark.slow
async def test_docs_forget_the_token_at_a_reload(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin()
    await visit.open("/docs")
    await authorise(visit, admin_token)
    await visit.page.locator(SEARCH).locator(".opblock-summary-control").click()
    await execute_search(visit, 200)
    # The page shares its origin with the console, so that a kept token could be read by a script there.
    kept = await visit.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert admin_token not in kept
    await visit.open("/docs#/search/search")
    await visit.page.reload()
    await visit.expect(visit.page.locator(f"{SEARCH} .execute")).to_be_visible()
    await execute_search(visit, 401)
