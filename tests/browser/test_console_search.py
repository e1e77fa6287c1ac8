"""Searching in the console, from signing in to signing out."""

import os
import re
import struct
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.auth.principal import Role
from tests.browser.conftest import Visits
from tests.browser.visit import SCREENSHOTS, Visit

QUERY = "how do we roll back a deploy"


async def sign_in(visit: Visit, token: str) -> None:
    await visit.page.get_by_label("Token").fill(token)
    await visit.page.get_by_role("button", name="Sign in").click()


async def search(visit: Visit, query: str) -> None:
    """Search with the form, and wait for the number of hits."""
    await visit.page.get_by_role("searchbox").fill(query)
    await visit.page.get_by_role("button", name="Search").first.click()
    await visit.expect(visit.page.locator("#answer h2").first).to_be_visible()


def address_of(visit: Visit) -> dict[str, list[str]]:
    return parse_qs(urlsplit(visit.page.url).query)


async def test_console_redirects_a_new_visitor_to_sign_in_and_back(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin()
    await visit.open(f"/console?query={QUERY.replace(' ', '+')}")
    assert urlsplit(visit.page.url).path == "/console/sign-in"
    await sign_in(visit, admin_token)
    await visit.expect(visit.page.locator("#answer h2").first).to_be_visible()
    assert address_of(visit)["query"] == [QUERY]


@pytest.mark.slow
async def test_console_refuses_a_bad_token_and_deletes_a_good_one(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin()
    await visit.open("/console")
    await sign_in(visit, "no token at all")
    await visit.expect(visit.page.get_by_role("alert")).to_be_visible()
    await sign_in(visit, f"Bearer {admin_token}")
    await visit.expect(visit.page.get_by_role("searchbox")).to_be_visible()
    assert await visit.page.evaluate("document.cookie") == ""

    await visit.page.get_by_role("button", name="Sign out").click()
    await visit.expect(visit.page.get_by_label("Token")).to_be_visible()
    await visit.open("/console/entries")
    assert urlsplit(visit.page.url).path == "/console/sign-in"


@pytest.mark.slow
async def test_search_is_explained_and_its_address_can_be_shared(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    await visit.open("/console")
    await visit.page.get_by_text("More filters and settings").click()
    await visit.page.get_by_label("Explain each result").check()
    await search(visit, QUERY)
    first = visit.page.locator(".hit").first
    await visit.expect(first.get_by_role("region", name="The parts of the score of hit 1")).to_be_visible()
    shown = await first.locator("tfoot tr:last-child .number").inner_text()
    score = await first.locator(".scores b").first.inner_text()
    assert float(shown) == pytest.approx(float(score), abs=1e-4)
    await visit.page.get_by_text("How were these results ranked?").click()
    await visit.expect(visit.page.locator("svg.ranks").first).to_be_visible()
    assert await visit.page.locator(".hit mark").count() > 0
    assert address_of(visit) == {"query": [QUERY], "explain": ["true"]}

    titles = await visit.page.locator(".hit h3").all_inner_texts()
    other = await visits.begin(admin_token)
    await other.page.goto(visit.page.url)
    assert await other.page.locator(".hit h3").all_inner_texts() == titles


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
async def test_search_too_long_for_an_address_continues_as_a_form(
    visits: Visits, admin_token: str, scripts: bool
) -> None:
    visit = await visits.begin(admin_token)
    if not scripts:
        await visit.page.route("**/*.js*", lambda route: route.fulfill(body=""))
    await visit.open("/console?limit=2")
    await search(visit, f"{QUERY} {'鐘' * 9_000}")
    assert urlsplit(visit.page.url).query == ""
    await visit.page.get_by_role("button", name="Next page").click()
    await visit.expect(visit.page.locator(".hit .number").first).to_have_text("3")
    await visit.take_picture("long-search")
    await visit.page.get_by_role("button", name="First page").click()
    await visit.expect(visit.page.locator(".hit .number").first).to_have_text("1")


@pytest.mark.slow
async def test_facet_narrows_the_search_and_widens_it_again(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    await visit.open("/console")
    await search(visit, QUERY)
    before = await visit.page.locator(".hit").count()
    facet = visit.page.locator(".facets a.tag", has_text=re.compile("^lesson"))
    await facet.click()
    await visit.expect(visit.page.locator(".facets a.tag.active", has_text="lesson")).to_be_visible()
    assert address_of(visit)["entry_type"] == ["lesson"]
    sources = await visit.page.locator(".hit .source").all_inner_texts()
    assert all(source.strip().startswith("lesson") for source in sources)
    await visit.page.locator(".facets a.tag.active", has_text="lesson").click()
    await visit.expect(visit.page.locator(".facets a.tag.active")).to_have_count(0)
    await visit.expect(visit.page.locator(".hit")).to_have_count(before)

    # Back goes through the searches and stays on the site.
    await visit.page.go_back()
    await visit.expect(visit.page.locator(".facets a.tag.active", has_text="lesson")).to_be_visible()


@pytest.mark.slow
async def test_search_explains_why_an_entry_is_missing(visits: Visits, admin_token: str) -> None:
    found = visits.site.call("POST", "/knowledge/search", admin_token, json={"query": QUERY, "limit": 10})
    last = found["results"][-1]["id"]
    visit = await visits.begin(admin_token)
    await visit.open(f"/console?query={QUERY.replace(' ', '+')}&limit=1")
    await visit.page.get_by_text("Why is an entry missing?").click()
    await visit.page.get_by_label("Missing entry").fill(last)
    await visit.page.get_by_role("button", name="Explain", exact=True).click()
    answer = visit.page.locator("#why-not-answer")
    await visit.expect(answer.get_by_text("The entry is not among the results")).to_be_visible()
    await visit.expect(visit.page.locator("#announcement")).to_contain_text("The entry is not among the results")
    await visit.expect(visit.page.locator(".hit")).to_have_count(1)


@pytest.mark.slow
async def test_two_settings_are_compared(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    await visit.open("/console")
    await search(visit, QUERY)
    await visit.page.get_by_text("How were these results ranked?").click()
    await visit.page.get_by_role("link", name="Compare settings").click()
    await visit.page.get_by_text("Both settings").click()
    side = visit.page.get_by_role("group", name="Setting B")
    await side.get_by_label("Mode").select_option("keyword")
    await visit.page.get_by_role("button", name="Compare").click()
    await visit.expect(visit.page.get_by_role("region", name="Ranks on both sides")).to_be_visible()
    assert await visit.page.locator("td.moves").count() > 0
    await visit.expect(visit.page.locator("#announcement")).not_to_be_empty()


@pytest.mark.slow
async def test_hit_shows_related_entries(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    await visit.open("/console")
    await search(visit, QUERY)
    hit = visit.page.locator(".hit").first
    await hit.locator("summary", has_text="Related").click()
    link = hit.locator(".related li a").first
    await visit.expect(link).to_be_visible()
    await link.click()
    await visit.expect(visit.page.get_by_role("heading", name="Content")).to_be_visible()


@pytest.mark.slow
async def test_keyboard_is_enough_to_sign_in_search_and_open_a_hit(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin()
    keyboard = visit.page.keyboard
    await visit.open("/console")
    await tab_to(visit, "input#token")
    await keyboard.insert_text(admin_token)
    await keyboard.press("Enter")
    await visit.expect(visit.page.get_by_role("searchbox")).to_be_visible()

    await visit.page.wait_for_load_state()  # with the script that knows the key
    await visit.page.locator("#content").focus()
    await keyboard.press("/")
    await visit.expect(visit.page.get_by_role("searchbox")).to_be_focused()
    await keyboard.type("a/b roll back")
    await visit.expect(visit.page.get_by_role("searchbox")).to_have_value("a/b roll back")
    await keyboard.press("Enter")
    await visit.expect(visit.page.locator(".hit").first).to_be_visible()
    await visit.expect(visit.page.locator("#announcement")).not_to_be_empty()
    await tab_to(visit, ".hit h3 a")
    await keyboard.press("Enter")
    await visit.expect(visit.page.get_by_role("heading", level=1)).not_to_have_text("What do you want to know?")

    # A page whose address has no fragment: the focus begins at its top.
    await visit.open("/console/entries")
    await visit.page.keyboard.press("Tab")
    assert await visit.page.evaluate("document.activeElement.className") == "skip"
    await keyboard.press("Enter")
    assert await visit.page.evaluate("document.activeElement.id") == "content"


async def tab_to(visit: Visit, selector: str) -> None:
    """Press Tab until such an element has the focus, which must be visible."""
    for _ in range(120):
        await visit.page.keyboard.press("Tab")
        if await visit.page.evaluate("selector => document.activeElement.matches(selector)", selector):
            outline = await visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", selector
            return
    raise AssertionError(f"Tab never reaches {selector}")


@pytest.mark.slow
async def test_reader_is_offered_no_changes(visits: Visits) -> None:
    visit = await visits.begin(visits.site.token(Role.READER, subject="rita"))
    await visit.open("/console/entries")
    await visit.expect(visit.page.get_by_role("heading", name="Entries")).to_be_visible()
    assert await visit.page.get_by_role("link", name="New entry").count() == 0
    assert await visit.page.get_by_role("link", name="Administration").count() == 0
    await visit.open("/console/assets")
    assert await visit.page.get_by_role("button", name="Upload").count() == 0
    await visit.open("/console/health")
    await visit.expect(visit.page.get_by_text("tenant_admin")).to_be_visible()


README_PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "search.png"
SIZE = (1120, 780)


async def test_the_picture_of_the_readme_is_a_search(visits: Visits, admin_token: str) -> None:
    """`KB_REWRITE_GOLDEN=1 make test-browser` renews it."""
    visit = await visits.begin(admin_token)
    page = visit.page
    await page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    await visit.open("/console?query=what+to+do+in+the+first+fifteen+minutes+of+an+incident&mode=keyword")
    await visit.expect(page.locator(".hit mark").first).to_be_visible()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    taken = await page.screenshot(path=SCREENSHOTS / "readme.png")
    if os.environ.get("KB_REWRITE_GOLDEN"):
        README_PICTURE.write_bytes(taken)
    assert struct.unpack(">II", README_PICTURE.read_bytes()[16:24]) == SIZE
    visit.check()
