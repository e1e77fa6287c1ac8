"""Permissions inside a tenant: the fields of the forms, and an admin who asks to see everything."""

from typing import Any, Literal
from uuid import UUID

import pytest

from app.auth.principal import Role
from tests.browser.accessibility import find_faults
from tests.browser.conftest import PHONE, WIDE, Visits
from tests.browser.site import Site
from tests.browser.visit import Visit

pytestmark = pytest.mark.slow

LISTS = {"readers": ["user:ann", "group:finance"], "writers": ["user:ann"]}


@pytest.fixture(scope="module")
def vault(site: Site) -> UUID:
    """A tenant in which not all readers may read everything."""
    tenant_id = site.create_tenant("vault", "The vault")
    token = site.token(Role.CREATOR, tenant_id=tenant_id, subject="ann")
    secret = {"title": "Payroll", "content": "The payroll is due on the 25th.", "tags": ["payroll"], **LISTS}
    for entry in (secret, {"content": "The pier opens in May.", "tags": ["pier"]}):
        site.call("POST", "/knowledge/entries", token, json=entry)
    file = ("salaries.md", b"# Salaries\n\nThey rise in June.", "text/markdown")
    site.call("POST", "/knowledge/assets", token, files={"file": file}, data={"readers": LISTS["readers"]})
    return tenant_id


def secret_of(site: Site, tenant_id: UUID) -> dict[str, Any]:
    """The entry that only ann and the group finance may read."""
    token = site.token(Role.CREATOR, tenant_id=tenant_id, subject="ann")
    (found,) = site.call("GET", "/knowledge/entries?tag=payroll", token)["items"]
    entry: dict[str, Any] = found
    return entry


async def check_page(visit: Visit, name: str) -> list[str]:
    """A picture of the page, and what is wrong with it."""
    await visit.take_picture(name)
    return await find_faults(visit, name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
async def test_an_admin_sees_everything_from_one_button_to_the_other(
    visits: Visits, vault: UUID, width: int, scheme: Literal["light", "dark"]
) -> None:
    entry, found = secret_of(visits.site, vault)["id"], []
    visit = await visits.begin(
        visits.site.token(Role.TENANT_ADMIN, tenant_id=vault, subject=f"ada-{width}-{scheme}"),
        width=width,
        scheme=scheme,
    )
    page = visit.page
    await visit.open("/console/access")
    await visit.expect(page.get_by_role("heading", level=1)).to_have_text("This page shows everything in the tenant")
    found += await check_page(visit, f"everything-{width}-{scheme}")
    await page.get_by_role("button", name="See everything").click()
    await visit.expect(page.get_by_role("heading", level=1)).to_have_text("Access")
    end = page.get_by_role("button", name="End this")
    pages = {
        "access": "/console/access",
        "search": "/console?query=payroll&mode=keyword",
        "entry": f"/console/entries/{entry}",
        "entry-edit": f"/console/entries/{entry}/edit",
        "access-entry": f"/console/access/entries/{entry}",
        "access-subject": "/console/access/subject?subject=jane&group=finance",
        "access-subject-none": "/console/access/subject?subject=nobody-known",
    }
    for name, path in pages.items():
        await visit.open(path)
        await visit.expect(end).to_be_visible()
        found += await check_page(visit, f"everything-{name}-{width}-{scheme}")
    await visit.open("/console/access/change")
    await page.get_by_label("With the tag").fill("payroll")
    await page.get_by_label("Change", exact=True).select_option("remove from")
    await page.get_by_label("Groups and users").fill("group:finance, user:ann")
    await page.get_by_role("button", name="Show what would change").click()
    await visit.expect(page.get_by_role("heading", name="What would change")).to_be_visible()
    found += await check_page(visit, f"everything-change-{width}-{scheme}")
    await end.click()
    await visit.expect(end).to_have_count(0)
    await visit.open(f"/console/entries/{entry}")
    await visit.expect(page.get_by_role("heading", level=1)).to_have_text("This does not exist")
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
async def test_readers_are_chosen_in_the_forms(
    visits: Visits, vault: UUID, width: int, scheme: Literal["light", "dark"]
) -> None:
    token = visits.site.token(Role.CREATOR, tenant_id=vault, subject="ben")
    visit = await visits.begin(token, width=width, scheme=scheme)
    page, found = visit.page, []
    await visit.open("/console/entries/new")
    await page.get_by_label("Content").fill(f"The harbour closes, {width} {scheme}")
    await page.get_by_text("Who may read and change it").click()
    await page.get_by_label("Who may read", exact=True).fill("jane\nuser:ben")
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("alert")).to_contain_text("Who may read: 'jane' must be")
    found += await check_page(visit, f"readers-refused-{width}-{scheme}")
    await page.get_by_role("link", name="Who may read").click()
    await page.get_by_label("Who may read", exact=True).fill("user:jane, user:ben")
    await page.get_by_role("button", name="Save").click()
    await visit.expect(page.get_by_role("status").first).to_be_attached()
    await visit.expect(page.locator("dl.facts").first).to_contain_text("ben (user), jane (user)")
    found += await check_page(visit, f"readers-entry-{width}-{scheme}")
    await visit.open("/console/assets")
    await page.get_by_text("Tags, audience, readers and more").click()
    await page.get_by_label("Who may read", exact=True).fill("user:ben")
    await page.get_by_label("Choose files").set_input_files(
        {"name": f"{width}-{scheme}.md", "mimeType": "text/markdown", "buffer": f"# {width} {scheme}".encode()}
    )
    found += await check_page(visit, f"readers-upload-{width}-{scheme}")
    await page.get_by_role("button", name="Upload").click()
    await page.locator("#upload-answer .notice.good a").click()
    await visit.expect(page.locator("dl.facts").first).to_contain_text("ben (user)")
    found += await check_page(visit, f"readers-asset-{width}-{scheme}")
    await page.get_by_role("link", name="Edit").click()
    await visit.expect(page.get_by_role("heading", level=1)).to_have_text("Edit a document")
    await page.wait_for_load_state()
    found += await check_page(visit, f"readers-asset-edit-{width}-{scheme}")
    assert found == []


async def test_a_page_is_loaded_again_when_another_tab_begins_to_see_everything(visits: Visits, vault: UUID) -> None:
    token = visits.site.token(Role.TENANT_ADMIN, tenant_id=vault, subject="grace")
    visit = await visits.begin(token)
    await visit.open("/console?query=pier&mode=keyword")
    other = await visit.page.context.new_page()
    visit.faults.clear()  # the second tab is the test's own
    await other.goto(f"{visits.site.address}/console/access")
    await other.get_by_role("button", name="See everything").click()
    await visit.expect(other.get_by_role("button", name="End this")).to_be_visible()
    query = visit.page.get_by_label("Search for")
    await query.fill("payroll")
    await query.press("Enter")
    await visit.expect(visit.page.get_by_role("button", name="End this")).to_be_visible()
