"""Hostile knowledge: markup, scripts and htmx attributes in every field that a caller can fill."""

from urllib.parse import urlencode

import pytest

from app.auth.principal import Role
from tests.browser.conftest import Visits
from tests.browser.pages import Stock, tenant_pages
from tests.browser.site import Site
from tests.browser.visit import Visit

pytestmark = pytest.mark.slow

TRAPS = (
    "<script>acted=1;alert(1)</script>",
    '"><img src=x onerror="acted=1">',
    "'><svg onload=acted=1>",
    "javascript:acted=1//",
    '" autofocus onfocus="acted=1" x="',
    '<b hx-get="/trap" hx-trigger="load">',
    '<b data-hx-get="/trap" data-hx-trigger="load">',
    '" hx-post="/trap" hx-trigger="load" x="',
    "</title></textarea></script><script>acted=1</script>",
    '<meta http-equiv=refresh content="0;url=/trap">',
    '<form action=/trap><button formaction="javascript:acted=1">',
    "{{ 7 * 191 }}${7 * 191}",
)
TEXT = " ".join(TRAPS)
NAME = "".join(TRAPS[:6])
ID = NAME.replace("/", "_").strip()[:200].strip()


@pytest.fixture(scope="module")
def poisoned(site: Site) -> tuple[str, Stock]:
    """A tenant with hostile text in every field, its admin's token, and the pages to visit."""
    tenant = site.create_tenant("poisoned", NAME[:200])
    token = site.token(Role.TENANT_ADMIN, tenant_id=tenant, subject=TEXT[:200])
    site.call("PATCH", "/admin/settings", token, json={"keep_query_text": True, "keep_versions_days": 7})
    fields = {"tags": list(TRAPS), "metadata": {TEXT: [TEXT], "page": TEXT}}
    parent = site.call("POST", "/knowledge/entries", token, json={"content": f"parent {TEXT}", "title": TEXT, **fields})
    entry = site.call(
        "POST",
        "/knowledge/entries",
        token,
        json={
            "content": f"deploy roll back {TEXT}",
            "title": f"deploy {TEXT}",
            "external_id": NAME[:200],
            "parent_id": parent["id"],
            "source_ids": [parent["id"]],
            **fields,
        },
    )
    # Its former version has them too.
    site.call("PATCH", f"/knowledge/entries/{entry['id']}", token, json={"content": f"roll back a deploy {TEXT}"})
    # Without a title, its content is used in headings and links.
    site.call("POST", "/knowledge/entries", token, json={"content": TEXT, "parent_id": parent["id"], **fields})
    upload = {"file": (f"{TRAPS[0]}{TRAPS[1]}.md".replace("/", "_"), f"# {TEXT}\n\ndeploy {TEXT}", "text/markdown")}
    asset = site.call("POST", "/knowledge/assets", token, files=upload, data={"tags": list(TRAPS[:3])})
    request = {"query": f"deploy {TEXT}", "tags": [TRAPS[0], "x"], "metadata": {TEXT: TEXT}}
    saved = site.call("POST", "/knowledge/saved-searches", token, json={"name": NAME[:200], "request": request})
    manifest = {"items": [{"external_id": ID, "digest": "1", "name": ID}], "origin": TEXT}
    site.call("PUT", "/knowledge/sources/handbook", token, json=manifest)
    found = site.call("POST", "/knowledge/search", token, json={"query": f"deploy {TEXT}"})
    site.call("POST", "/knowledge/search", token, json={"query": f"zyzzyva{TEXT}", "tags": ["none"]})
    verdict = {"search_id": found["metadata"]["search_id"], "relevant": False}
    site.call("POST", "/knowledge/feedback", token, json={**verdict, "entry_id": found["results"][0]["id"]})
    erased = site.call("POST", "/knowledge/entries", token, json={"content": f"erased {TEXT}"})
    erasure = site.call("POST", "/admin/erasures", token, json={"entry_id": erased["id"]})
    return token, Stock(entry["id"], asset["id"], saved["id"], found["metadata"]["search_id"], erasure["id"])


async def expect_nothing_acted(visit: Visit, place: str) -> None:
    assert await visit.page.evaluate("typeof acted") == "undefined", place
    assert not [asked for asked in visit.requests if "trap" in asked.partition("?")[0]], place
    assert not visit.faults, (place, visit.faults)


async def test_visit_detects_forbidden_events(visits: Visits, admin_token: str) -> None:
    visit = await visits.begin(admin_token)
    await visit.open("/console")
    await visit.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", "".join(TRAPS[:-3]))
    await visit.page.evaluate("htmx.process(document.body); alert('here'); fetch('http://192.0.2.1/').catch(() => 0)")
    await visit.expect(visit.page.locator("b").first).to_be_attached()
    await visit.page.wait_for_timeout(500)
    told = "\n".join(visit.faults)
    assert "policy violated: script-src" in told
    assert "a dialog: here" in told
    assert "policy violated: connect-src" in told
    assert "GET /trap" in visit.requests
    visit.faults.clear()


async def test_stored_script_does_not_run_on_any_page(visits: Visits, poisoned: tuple[str, Stock]) -> None:
    token, stock = poisoned
    visit = await visits.begin(token)
    query = urlencode({"query": f"deploy {TEXT}", "explain": "true", "tags": TRAPS[0]})
    pages = {
        **tenant_pages(stock),
        "hits": "/console?query=deploy&explain=true",
        "script-asked": f"/console?{query}",
        "script-everywhere": "/console?" + urlencode(dict.fromkeys(("query", "mode", "limit", "metadata"), TEXT)),
        "script-compared": "/console/compare?" + urlencode({"query": "deploy", "a.mode": TEXT, "b.rrf_k": TEXT}),
        "script-wanted": "/console/why-not?" + urlencode({"query": TEXT, "entry_id": TEXT}),
        "script-filter": "/console/entries?" + urlencode({"tag": TEXT[:90], "entry_type": TEXT}),
        "script-next": "/console/sign-in?" + urlencode({"next": f"javascript:{TEXT}"}),
        "script-path": "/console/entries/" + "%3Cscript%3Eacted=1%3C%2Fscript%3E",
    }
    for name, path in pages.items():
        await visit.open(path)
        await expect_nothing_acted(visit, name)
        for link in await visit.page.locator("a[href]").evaluate_all("all => all.map(a => a.href)"):
            assert link.startswith(f"{visit.site.address}/console"), (name, link)
        if name in ("hits", "entry", "asset", "feedback", "sources", "saved-searches", "entry-versions"):
            assert TRAPS[0] in await visit.page.locator("main").inner_text(), name
            await visit.take_picture(f"script-{name}")


async def test_stored_script_does_not_run_in_swapped_parts(visits: Visits, poisoned: tuple[str, Stock]) -> None:
    token, _ = poisoned
    visit = await visits.begin(token)
    page = visit.page
    await visit.open("/console")
    await page.get_by_role("searchbox").fill(f"deploy {TEXT}")
    await page.get_by_role("button", name="Search").first.click()
    hit = page.locator(".hit").first
    await visit.expect(hit).to_be_visible()
    await hit.locator("summary", has_text="Related").click()
    await visit.expect(hit.locator(".related li").first).to_be_visible()
    await page.get_by_text("Why is an entry missing?").click()
    await page.get_by_label("Missing entry").fill(TEXT)
    await page.get_by_role("button", name="Explain").click()
    await visit.expect(page.locator("#why-not-answer .problem, #problem *").first).to_be_visible()
    await expect_nothing_acted(visit, "search")

    await visit.open("/console/assets")
    name = '<img src=x onerror="acted=1"><b hx-get=trap hx-trigger=load>.txt'
    await page.get_by_label("File").set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": f"more {TEXT}".encode()}
    )
    await page.get_by_role("button", name="Upload").click()
    await visit.expect(page.locator("#upload-answer")).to_contain_text("has been uploaded")
    row = page.get_by_role("row").filter(has_text="hx-get=trap")
    await visit.expect(row.get_by_text("indexed", exact=True)).to_be_visible()
    await expect_nothing_acted(visit, "upload")


async def test_stored_script_does_not_run_for_a_platform_administrator(
    visits: Visits, poisoned: tuple[str, Stock]
) -> None:
    visit = await visits.begin(visits.site.token(Role.PLATFORM_ADMIN, subject=TEXT[:200]))
    await visit.open("/console/platform")
    await visit.expect(visit.page.get_by_role("row").filter(has_text="poisoned").first).to_contain_text(TRAPS[0])
    await expect_nothing_acted(visit, "platform")
