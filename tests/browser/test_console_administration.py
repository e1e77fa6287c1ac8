"""The administration in the console: settings with their preview, and the menu of a phone."""

from typing import Literal
from uuid import UUID

import pytest

from app.auth.principal import Role
from tests.browser.accessibility import find_barriers, find_faults
from tests.browser.conftest import PHONE, WIDE, Visits
from tests.browser.site import Site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def quay(site: Site) -> UUID:
    """A tenant whose settings these tests change, with entries of which only some have the words of a query."""
    tenant_id = site.create_tenant("quay", "The quay")
    token = site.token(Role.TENANT_ADMIN, tenant_id=tenant_id)
    for content in ("The crane lifts boxes", "A crane stands at the quay", *(f"Boat {n}" for n in range(10))):
        site.call("POST", "/knowledge/entries", token, json={"content": content})
    return tenant_id


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
async def test_a_preview_is_accessible_and_saves_nothing(
    visits: Visits, quay: UUID, width: int, scheme: Literal["light", "dark"]
) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=quay)
    before = visits.site.call("GET", "/admin/settings", token)
    visit = await visits.begin(token, width=width, scheme=scheme)
    page = visit.page
    await visit.open("/console/settings")
    await page.locator("summary", has_text="Ranking").click()
    await page.get_by_label("Semantic weight").fill("0.9")
    await page.get_by_label("Keyword weight").fill("0.1")
    await page.get_by_label("Minimum similarity").fill("0")
    await page.get_by_label("Queries to compare").fill("the crane lifts\nquay")
    await page.get_by_role("button", name="Preview the change").click()
    await visit.expect(page.get_by_role("heading", name="What would change")).to_be_visible()
    await visit.expect(page.locator(".preview details")).to_have_count(2)
    # Without a minimum similarity, the semantic leg adds results.
    assert await page.locator(".preview details[open] tbody .badge", has_text="new").count() > 0
    await visit.take_picture(f"settings-preview-{width}-{scheme}")
    assert await find_faults(visit, "preview") == []
    assert visits.site.call("GET", "/admin/settings", token) == before


async def test_settings_are_saved_by_a_second_step(visits: Visits, quay: UUID) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=quay)
    visit = await visits.begin(token)
    page = visit.page
    await visit.open("/console/settings")
    await page.locator("summary", has_text="Ranking").click()
    await page.get_by_label("Fusion").select_option("rrf")
    await page.get_by_role("button", name="Preview the change").click()
    await page.get_by_role("button", name="Save these settings").click()
    await visit.expect(page.locator(".notice.good")).to_contain_text("have been saved")
    assert visits.site.call("GET", "/admin/settings", token)["fusion"] == "rrf"


async def test_the_menu_of_a_phone_shows_every_section(visits: Visits, quay: UUID) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=quay)
    visit = await visits.begin(token, width=PHONE)
    page = visit.page
    await visit.open("/console/entries")
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    menu = page.get_by_role("button", name="Menu")
    await visit.expect(menu).to_have_attribute("aria-expanded", "false")
    assert await links.count() == 0
    await menu.click()
    await visit.expect(links).to_have_text(["Search", "Entries", "Documents", "Saved searches", "Administration"])
    boxes = [await link.bounding_box() for link in await links.all()]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= PHONE for box in boxes)
    assert all(box and box["height"] >= 44 for box in boxes), "large enough for a finger"
    assert await find_barriers(visit) == []
    await visit.take_picture(f"menu-{PHONE}-light")
    await links.last.click()
    await visit.expect(page.get_by_role("heading", name="Health", level=1)).to_be_visible()
