"""Entries, documents, saved searches and health in the console."""

import re
from uuid import UUID

import pytest

from app.auth.principal import Role
from tests.browser.conftest import Visits
from tests.browser.site import Site

pytestmark = pytest.mark.slow

MANUAL = "# Harbour manual\n\n" + "\n\n".join(
    f"## Berth {n}\n\nBerth {n} is {n} metres wide. " + "Ships moor there at high tide. " * 30 for n in range(120)
)

NOTE_PROGRESS = """
() => {
  window.loaded = [];
  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (body) {
    this.upload.addEventListener("progress", (event) => loaded.push(event.loaded));
    return send.call(this, body);
  };
}
"""


@pytest.fixture(scope="module")
def harbour(site: Site) -> UUID:
    """A tenant that these tests write to."""
    return site.create_tenant("harbour", "The harbour")


@pytest.fixture
def creator(site: Site, harbour: UUID) -> str:
    return site.token(Role.CREATOR, tenant_id=harbour, subject="carla")


async def test_entry_is_created_changed_and_deleted(visits: Visits, creator: str) -> None:
    visit = await visits.begin(creator)
    page = visit.page
    await visit.open("/console/entries")
    await page.get_by_role("link", name="New entry").click()
    await page.get_by_label("Title").fill("The lock")
    await page.get_by_label("Content").fill("The lock opens at noon.")
    await page.get_by_text("Audience, expiry and more").click()
    await page.get_by_label("Confidence").fill("7")
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("alert")).to_contain_text("Confidence")
    await visit.expect(page.get_by_label("Content")).to_have_value("The lock opens at noon.")
    await page.get_by_label("Confidence").fill("0.7")
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("heading", name="The lock", level=1)).to_be_visible()
    await visit.expect(page.locator("dl.facts").first).to_contain_text("0.7")

    await page.get_by_role("link", name="Edit").click()
    await page.get_by_label("Content").fill("The lock opens at one.")
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.locator("pre.text").first).to_have_text("The lock opens at one.")

    await page.get_by_role("link", name="Delete").click()
    await page.get_by_role("button", name="Delete the entry").click()
    await visit.expect(page.get_by_role("heading", name="Entries", level=1)).to_be_visible()
    assert await page.get_by_role("link", name="The lock").count() == 0


async def test_edit_of_an_entry_that_has_changed_is_refused(visits: Visits, creator: str) -> None:
    entry = visits.site.call("POST", "/knowledge/entries", creator, json={"content": "The tide is low."})
    visit = await visits.begin(creator)
    page = visit.page
    await visit.open(f"/console/entries/{entry['id']}/edit")
    await page.get_by_label("Content").fill("Mine.")
    path = f"/knowledge/entries/{entry['id']}"
    visits.site.call("PATCH", path, creator, json={"content": "The other author's."})
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("alert")).to_contain_text("Nothing was saved")
    await visit.expect(page.get_by_label("Content")).to_have_value("Mine.")
    assert visits.site.call("GET", path, creator)["content"] == "The other author's."
    await page.get_by_role("button", name="Overwrite").click()
    await visit.expect(page.locator("pre.text").first).to_have_text("Mine.")


async def test_document_is_uploaded_and_tracked_until_it_is_indexed(visits: Visits, creator: str) -> None:
    visit = await visits.begin(creator)
    page = visit.page
    await visit.open("/console/assets")
    await page.evaluate(NOTE_PROGRESS)
    await page.get_by_label("File").set_input_files(
        {"name": "manual.md", "mimeType": "text/markdown", "buffer": MANUAL.encode()}
    )
    await page.get_by_role("button", name="Upload").click()
    await visit.expect(page.locator("#upload-answer")).to_contain_text("manual.md has been uploaded")
    row = page.get_by_role("row").filter(has_text="manual.md")
    await visit.expect(row.get_by_text("indexed", exact=True)).to_be_visible()
    # The page was never reloaded: the row followed the work by itself.
    assert max(await page.evaluate("window.loaded")) >= len(MANUAL)
    await visit.expect(page.locator(".upload-progress")).to_be_hidden()

    await row.get_by_role("link", name="manual.md").click()
    await visit.expect(page.locator(".document")).to_contain_text("Berth 1 is 1 metres wide.")
    await page.get_by_role("link", name="Passages", exact=True).click()
    await visit.expect(page.locator("a.chunk-number").first).to_be_visible()
    numbers = page.locator("a.chunk-number")
    assert await numbers.count() > 2
    await numbers.nth(1).click()
    await visit.expect(page.locator("dl.facts").first).to_contain_text("passage 2")


async def test_document_that_cannot_be_read_shows_the_reason(visits: Visits, creator: str) -> None:
    visit = await visits.begin(creator)
    page = visit.page
    await visit.open("/console/assets")
    await page.get_by_label("File").set_input_files(
        {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 and nothing else"}
    )
    await page.get_by_role("button", name="Upload").click()
    row = page.get_by_role("row").filter(has_text="broken.pdf")
    await visit.expect(row.get_by_text("failed", exact=True)).to_be_visible()
    # The polling must survive its first answer, or the second reading is not followed.
    await visit.expect(page.locator("#follower")).to_have_count(1)
    async with page.expect_response("**/retry"):
        await row.get_by_role("button", name="Try again").click()
    await visit.expect(row.get_by_text("failed", exact=True)).to_be_visible()
    await visit.expect(page.locator("#follower")).to_have_count(1)

    await page.get_by_label("File").set_input_files(
        {"name": "image.bin", "mimeType": "application/octet-stream", "buffer": bytes(range(256))}
    )
    await page.get_by_role("button", name="Upload").click()
    await visit.expect(page.get_by_role("alert")).to_contain_text("This kind of file is not supported")
    await visit.expect(page.locator("#upload-answer")).to_contain_text("image.bin")


async def test_search_is_saved_run_and_deleted(visits: Visits, creator: str) -> None:
    visits.site.call("POST", "/knowledge/entries", creator, json={"content": "The crane lifts ten tons."})
    visit = await visits.begin(creator)
    page = visit.page
    await visit.open("/console?query=crane&mode=keyword")
    await page.get_by_text("Save this search").first.click()
    await page.get_by_label("Name", exact=True).fill("Cranes")
    await page.get_by_role("button", name="Save this search").click()
    row = page.get_by_role("row").filter(has_text="Cranes")
    await visit.expect(row).to_contain_text("crane")
    await row.get_by_role("link", name=re.compile("^Run")).click()
    await visit.expect(page.locator(".hit")).to_have_count(1)
    await visit.expect(page.get_by_label("Mode")).to_have_value("keyword")

    await visit.open("/console/saved-searches")
    await row.get_by_role("link", name=re.compile("^Delete")).click()
    await page.get_by_role("button", name="Delete the saved search").click()
    await visit.expect(page.get_by_text("You have no saved searches yet")).to_be_visible()


async def test_health_shows_recent_activity(visits: Visits, harbour: UUID) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=harbour)
    visits.site.call("POST", "/knowledge/entries", token, json={"content": "The pilot is on board."})
    visits.site.call("POST", "/knowledge/search", token, json={"query": "pilot"})
    visit = await visits.begin(token)
    await visit.open("/console")
    await visit.page.get_by_role("link", name="Administration").click()
    await visit.expect(visit.page.get_by_role("heading", name="Entries by model")).to_be_visible()
    assert await visit.page.locator("dl.figures dd").first.inner_text() != "0"


async def test_platform_administrator_sees_counts_and_no_knowledge(visits: Visits, harbour: UUID) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=harbour)
    canary = "quokka"
    visits.site.call(
        "POST",
        "/knowledge/entries",
        token,
        json={"content": f"content {canary}", "title": f"title {canary}", "tags": [canary]},
    )
    visits.site.call("POST", "/knowledge/search", token, json={"query": canary})
    visit = await visits.begin()
    await visit.open("/console")
    await visit.page.get_by_label("Token").fill(visits.site.token(Role.PLATFORM_ADMIN, subject="paula"))
    await visit.page.get_by_role("button", name="Sign in").click()
    await visit.expect(visit.page.get_by_role("heading", name="Tenants")).to_be_visible()
    await visit.expect(visit.page.get_by_role("row").filter(has_text="The harbour").first).to_be_visible()
    assert canary not in await visit.page.content()
    for path in ("/console?query=a", "/console/entries", "/console/assets", "/console/health"):
        await visit.open(path)
        assert canary not in await visit.page.content(), path
        assert await visit.page.locator(".hit, table").count() == 0, path
