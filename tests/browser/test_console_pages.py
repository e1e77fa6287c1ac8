"""Every page of the console: accessible, on every screen, in light and dark."""

from typing import Literal

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
