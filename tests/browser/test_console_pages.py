"""Every page of the console, also after an action: accessible, on every screen, in light and dark."""

from typing import Literal
from uuid import UUID

import pytest

from app.auth.principal import Role
from tests.browser.accessibility import find_faults
from tests.browser.conftest import PHONE, WIDE, Visits
from tests.browser.pages import Stock, all_pages, stock_tenant
from tests.browser.site import Site
from tests.browser.visit import Visit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stock(site: Site) -> Stock:
    return stock_tenant(site, site.token(Role.TENANT_ADMIN))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
async def test_pages_are_accessible_and_fit_the_screen(
    visits: Visits, stock: Stock, admin_token: str, scheme: Literal["light", "dark"], width: int
) -> None:
    found: list[str] = []
    tabs: dict[str | None, Visit] = {}
    for name, path, token in all_pages(visits.site, stock, admin_token):
        visit = tabs.get(token) or await visits.begin(token, width=width, scheme=scheme)
        tabs[token] = visit
        await visit.open(path)
        await visit.take_picture(f"{name}-{width}-{scheme}")
        found += await find_faults(visit, name)
        found += [f"{name}: {fault}" for fault in visit.faults]
        visit.faults.clear()
    assert found == []


async def test_pages_have_a_title_and_heading(visits: Visits, stock: Stock, admin_token: str) -> None:
    titles: dict[str, str] = {}
    tabs: dict[str | None, Visit] = {}
    for name, path, token in all_pages(visits.site, stock, admin_token):
        visit = tabs.get(token) or await visits.begin(token)
        tabs[token] = visit
        await visit.open(path)
        titles[name] = await visit.page.title()
        assert await visit.page.locator("h1").count() == 1, name
        assert await visit.page.locator("main").count() == 1, name
        levels = await visit.page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(h => +h.tagName[1])")
        steps = list(zip([0, *levels], levels, strict=False))
        assert all(after <= before + 1 for before, after in steps), (name, levels)
    assert all(title.endswith("· console") and len(title) > len("· console") + 2 for title in titles.values())


TITLE = "A very long title about the lamps of the pier, the quay, the lock and the harbour master's office, " * 9
ARABIC = "يحصل الموظفون على ثمانية وعشرين يوما من الإجازة."


@pytest.fixture(scope="module")
def pier(site: Site) -> UUID:
    """A tenant with long, right-to-left and pictured texts, and more entries than a page has."""
    tenant_id = site.create_tenant("pier", "The pier")
    token = site.token(Role.TENANT_ADMIN, tenant_id=tenant_id)
    site.call("PATCH", "/admin/settings", token, json={"keep_query_text": True, "keep_versions_days": 7})
    entries = [{"content": f"Lamp {n} of the pier.", "tags": [f"lamp {n}"]} for n in range(1000)]
    entries += [
        {"content": f"{'unbroken' * 90} lamp", "title": TITLE[:1000]},
        {"content": ARABIC, "title": "الإجازة السنوية"},
        {"content": "🎉 Party at the pier 🎈", "title": "🎂"},
    ]
    for part in (entries[:500], entries[500:]):
        site.call("POST", "/knowledge/entries/bulk", token, json={"entries": part})
    return tenant_id


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
async def test_pages_after_an_action_are_accessible_and_fit_the_screen(
    visits: Visits, pier: UUID, width: int, scheme: Literal["light", "dark"]
) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=pier)
    visit = await visits.begin(token, width=width, scheme=scheme)
    page, found = visit.page, []

    async def look(name: str) -> None:
        await visit.take_picture(f"state-{name}-{width}-{scheme}")
        found.extend(await find_faults(visit, name))

    await visit.open("/console?query=lamp&limit=50")
    await visit.expect(page.locator(".hit")).to_have_count(50)
    for summary in ("Why this result?", "Related", "How were these results ranked?", "More filters and settings"):
        await page.get_by_text(summary).first.click()
    await page.locator("#hit-2").get_by_role("button", name="Not useful").click()
    await visit.expect(page.locator("#hit-2")).to_contain_text("Thank you")
    await look("results-unfolded")
    await page.get_by_role("link", name="Next page").click()
    await visit.expect(page.locator(".hit .number").first).to_have_text("51")
    await look("second-page")

    await visit.open("/console/receipts")
    await page.get_by_role("link", name="lamp", exact=True).first.click()
    await page.get_by_role("button", name="Run again").click()
    await visit.expect(page.locator("#replay")).to_be_visible()
    await look("replay")

    await visit.open("/console/assets")
    files = [("lamps.md", b"# Lamps"), ("same.md", b"# Lamps"), ("image.bin", bytes(range(256)))]
    await page.get_by_label("Choose files").set_input_files(
        [{"name": name, "mimeType": "application/octet-stream", "buffer": data} for name, data in files]
    )
    await page.get_by_role("button", name="Upload").click()
    await visit.expect(page.locator("#upload-answer > *")).to_have_count(3)
    await visit.expect(page.locator("#upload-answer")).to_contain_text("image.bin")
    await visit.expect(page.get_by_role("row").filter(has_text="lamps.md").first).to_contain_text("indexed")
    await look("uploads")

    await visit.open("/console/entries/new")
    await page.get_by_label("Content").fill("Kept")
    await page.get_by_text("Audience, expiry and more").click()
    await page.get_by_text("Other entries, and metadata").click()
    await page.get_by_label("Confidence").fill("7")
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("alert")).to_be_visible()
    await look("form-refused")
    await page.context.clear_cookies()
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("heading", name="Nothing was saved")).to_be_visible()
    await look("signed-out")
    assert found == []


async def test_stored_text_has_its_own_direction_and_width(visits: Visits, pier: UUID) -> None:
    token = visits.site.token(Role.READER, tenant_id=pier)
    visit = await visits.begin(token, width=PHONE)
    page = visit.page
    ends = """
      element => {
        const text = document.createRange();
        text.selectNodeContents(element);
        const [inner, outer] = [text.getBoundingClientRect(), element.getBoundingClientRect()];
        return [inner.left - outer.left, outer.right - inner.right];
      }
    """
    await visit.open("/console/entries")
    rows = page.get_by_role("row")
    for name, from_right in (("الإجازة السنوية", True), ("Lamp 999", False)):
        await rows.filter(has_text=name).first.get_by_role("link").first.click()
        left, right = await page.locator("pre.text").first.evaluate(ends)
        assert (right < left) if from_right else (left <= right), name
        assert await find_faults(visit, name) == []
        await page.go_back()
    await rows.filter(has_text="A very long title").get_by_role("link").first.click()
    await visit.expect(page.get_by_role("heading", level=1)).to_contain_text("A very long title")
    assert await find_faults(visit, "long") == []
    await visit.take_picture(f"long-title-{PHONE}-light")


async def test_a_thousand_hits_are_read_page_by_page(visits: Visits, pier: UUID) -> None:
    token = visits.site.token(Role.READER, tenant_id=pier)
    visit = await visits.begin(token)
    page = visit.page
    await visit.open("/console?query=lamp&mode=keyword&limit=50")
    summary = await page.locator("#answer h2[data-announce]").inner_text()
    seen: set[str] = set()
    for number in range(1, 100):
        await visit.expect(page.locator(".hit .number").first).to_have_text(str(len(seen) + 1))
        found = await page.locator(".hit h3 a").evaluate_all("all => all.map(link => link.href)")
        assert not seen & set(found), "no hit comes twice"
        seen |= set(found)
        following = page.get_by_role("link", name="Next page")
        if not await following.count():
            break
        await following.click()
        await visit.expect(page.locator(".hit .number").first).not_to_have_text(str(number * 50 - 49))
    total = int(summary.split(" of ")[1].split()[0].replace(",", ""))
    assert len(seen) == total
