"""The search page: the form's request reaches the service, and its answer is shown."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from app.composition.services import Services
from tests.console.asset_pages import Work
from tests.console.browser import Browser
from tests.console.search_pages import form_of
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider


async def test_a_hit_shows_its_source(browser: Browser, admin: Caller) -> None:
    await admin.add("The crew rings it", title="Bells & <whistles>", tags=["sea", "iron"], is_verified=True)
    await admin.add("A boat")
    page = await browser.search("rings bell", mode="keyword")
    hit = page.one("#hit-1")
    assert hit.cssselect("h3 a")[0].text_content().strip() == "Bells & <whistles>"
    assert [e.text_content() for e in hit.cssselect("mark")] == ["Bells", "rings"]
    assert [e.text_content() for e in hit.cssselect("a.tag")] == ["sea", "iron"]
    assert "verified" in hit.text_content()
    entry = (await admin.search("rings bell", mode="keyword"))["results"][0]
    shown = " ".join(hit.cssselect(".scores")[0].text_content().split())
    assert f"score {entry['score']:.4f}" in shown
    assert f"BM25 {entry['keyword_score']:.2f}" in shown
    assert page.one("[data-announce]").text_content() == "1 result"
    assert hit.cssselect("h3 a")[0].get("href") == f"/console/entries/{entry['id']}"


async def test_the_score_is_explained_so_that_it_adds_up(browser: Browser, admin: Caller) -> None:
    for text in ("The bell rings", "The bell of the boat", "A boat"):
        await admin.add(text, entry_type="lesson" if "boat" in text else "fact")
    for fusion in ("rrf", "score"):
        page = await browser.search("bell", fusion=fusion, boost="type", similarity_threshold="0")
        assert page.all(".hit")
        for hit in page.all(".hit"):
            (table,) = hit.cssselect("table.score")
            total = 0.0
            for row in table.cssselect("tbody tr"):
                _, calculation, adds = (e.text_content().strip() for e in row.cssselect("td")[:3])
                written = calculation.replace("×", "*").replace("^", "**")
                sum_ = 0.0 if calculation == "adds nothing" else eval(written)  # noqa: S307 (numbers and signs alone)
                assert sum_ == pytest.approx(float(adds), abs=2e-4)
                total += float(adds)
            *factors, score = (e.text_content().replace("×", "").strip() for e in table.cssselect("tfoot .number"))
            for factor in factors[1:]:
                total *= float(factor)
            assert total == pytest.approx(float(score), abs=2e-4)


async def test_the_chart_and_its_table_show_the_ranks(browser: Browser, admin: Caller) -> None:
    for number in range(4):
        await admin.add(f"Bell number {number}" + " tolls" * number, title=f"Bell {number}")
    found = await admin.search("bell tolls", explain=True, similarity_threshold=0)
    page = await browser.search("bell tolls", similarity_threshold="0")
    rows = page.all("#ranking details tbody tr")
    assert len(rows) == len(found["results"]) == len(page.all("svg.ranks g.lane"))
    for row, told in zip(rows, found["debug_info"]["hits"], strict=True):
        ranks = [e.text_content().split()[0] for e in row.cssselect("td")]
        wanted = [told["semantic_rank"], told["rank"], told["keyword_rank"]]
        assert ranks == ["–" if rank is None else str(rank) for rank in wanted]
    circles = page.all("svg.ranks circle")
    assert len(circles) == sum(len(row.cssselect("td .faint")) for row in rows)


async def test_facets_count_the_hits_and_add_or_remove_a_filter(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell", tags=["sea", "a, b"])
    await admin.add("The bell again", tags=["sea"], entry_type="lesson", scope="project")
    page = await browser.search("bell", mode="keyword")
    links = {" ".join(a.text_content().split()): a.get("href") for a in page.all(".facets a")}
    assert set(links) == {"fact 1", "lesson 1", "sea 2", "a, b 1", "global 1", "project 1"}
    narrowed = await browser.get(links["a, b 1"])
    assert len(narrowed.all(".hit")) == 1
    assert form_of(links["a, b 1"]).request() == {"query": "bell", "mode": "keyword", "tags": ["a, b"]}
    (active,) = narrowed.all(".facets a.active")
    assert form_of(active.get("href")).request() == {"query": "bell", "mode": "keyword"}
    lesson = await browser.get(links["lesson 1"])
    assert len(lesson.all(".hit")) == 1


async def test_pages_go_forward_and_back(browser: Browser, admin: Caller) -> None:
    for number in range(5):
        await admin.add(f"Bell number {number}")
    page = await browser.search("bell", mode="keyword", limit="2")
    numbers, seen = [], set()
    while True:
        numbers += [int(text) for text in page.texts(".hit .number[aria-hidden]")]
        seen |= {a.get("href") for a in page.all(".hit h3 a")}
        following = page.all("a[rel=next]")
        if not following:
            break
        page = await browser.get(following[0].get("href"))
        assert page.status == 200
    assert numbers == [1, 2, 3, 4, 5]
    assert len(seen) == 5
    (first,) = [a for a in page.all(".pager a") if "First" in a.text_content()]
    assert (await browser.get(first.get("href"))).texts(".hit .number[aria-hidden]") == ["1", "2"]


async def test_an_expired_cursor_is_reported(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell")
    page = await browser.get("/console", {"query": "bell", "cursor": "AAAAAAAAAAAAAAAAAAAAAAAAAAA"})
    assert page.status == 410
    assert page.all("[role=alert]")
    bad = await browser.get("/console", {"query": "bell", "cursor": "nonsense"})
    assert bad.status == 422
    assert "next_cursor" in bad.text


async def test_a_keyword_only_search_is_marked(browser: Browser, admin: Caller, provider: FailingProvider) -> None:
    await admin.add("The bell")
    provider.down = True
    page = await browser.search("bell")
    assert "keyword search only" in page.one(".notice.warning").text_content()
    assert page.all(".hit")


async def test_a_search_without_results_offers_suggestions(browser: Browser, admin: Caller) -> None:
    await admin.add("The boat lies there", tags=["harbour"])
    page = await browser.search("harbour", mode="keyword", tags="nowhere")
    assert page.one("[data-announce]").text_content() == "Nothing found."
    assert not page.all("svg.ranks")
    assert page.texts("#facets-heading") == ["Filters"]
    for link in page.all("#answer > p a"):
        assert (await browser.get(link.get("href"))).status == 200


async def test_what_was_searched_in_place_of_words_is_shown(browser: Browser, admin: Caller) -> None:
    await admin.add("A handbook for the lighthouse.", language="english")
    await admin.add("Die Sicherung der Datenbank.", language="german")
    for query, shown in (
        ("lihgthouse handb", "“handb…” was also searched as “handbook”."),
        ("lihgthouse handb", "“lihgthouse” was also searched as “lighthouse”."),
        ("Datenbanksicherung", "“datenbanksicherung” was also searched as “Datenbank Sicherung”."),
    ):
        page = await browser.search(query, mode="keyword")
        assert shown in [e.text_content() for e in page.all("p.notice")]


async def test_an_htmx_request_gets_the_short_address(browser: Browser) -> None:
    page = await browser.get(
        "/console",
        {"query": "bell", "mode": "", "role": "", "rrf_k": "60", "limit": "5"},
        headers={"HX-Request": "true"},
    )
    assert page.answer.headers["hx-push-url"] == "/console?query=bell&limit=5"


async def test_a_problem_does_not_replace_the_page(browser: Browser, admin: Caller) -> None:
    headers = {"HX-Request": "true"}
    gone = {"query": "bell", "cursor": "AAAAAAAAAAAAAAAAAAAAAAAAAAA"}
    page = await browser.get("/console", gone, headers=headers)
    assert page.status == 410
    assert page.answer.headers["hx-retarget"] == "#problem"
    assert not page.all("main")


async def test_a_link_that_leads_to_a_comparison_keeps_the_search(browser: Browser) -> None:
    page = await browser.search("bell", tags="sea", boost="type", rrf_k="5")
    (link,) = [a for a in page.all("a.button") if "Compare" in a.text_content()]
    query = parse_qs(urlsplit(link.get("href")).query)
    assert query == {
        "query": ["bell"], "tags": ["sea"], "a.fusion": ["score"], "b.fusion": ["rrf"], "a.rrf_k": ["5"],
        "b.rrf_k": ["5"], "a.boost": ["type"], "b.boost": ["type"],
    }  # fmt: skip


async def test_a_passage_leads_into_its_document(browser: Browser, admin: Caller, work: Work) -> None:
    text = f"# Guide\n\n## Bells\n\n{'The bell rings. ' * 60}\n\n## Lamps\n\n{'A lamp burns. ' * 60}"
    asset = (await admin.upload("guide.md", text.encode(), "text/markdown")).json()["id"]
    await work()
    page = await browser.search("bell rings", mode="keyword", limit="1")
    link = page.one(".hit h3 a")
    assert link.text_content().strip() == "Bells"
    source = page.one(".hit .source").text_content()
    assert "guide.md" in source
    assert "Guide" in source
    opened = await browser.get(link.get("href").partition("#")[0])
    assert str(opened.answer.request.url).split("?")[0].endswith(asset)
    assert "bell rings" in " ".join(opened.texts("mark.passage"))


async def test_a_search_while_typing_leaves_no_record(browser: Browser, admin: Caller, api_services: Services) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    for number in range(3):
        await admin.add(f"Bell number {number}")
    typing = {"HX-Request": "true", "HX-Trigger": "query"}
    page = await browser.post("/console", {"query": "bell", "limit": "1"}, headers=typing)
    assert len(page.all("#results .hit")) == 1
    assert not page.all(".thumbs, a[rel=next], .search-id")
    assert "hx-push-url" not in page.answer.headers
    assert page.one("#answer").get("data-address") == "/console?query=bell&limit=1"
    nothing = await browser.post("/console", {"query": "zyzzyva", "mode": "keyword"}, headers=typing)
    assert "Nothing found" in nothing.text
    await api_services.journal.flush()
    assert (await admin.get("/admin/feedback")).json()["empty_searches"] == []
    start = await browser.post("/console", {"query": " "}, headers=typing)
    assert (start.status, bool(start.all("#results .start"))) == (200, True)
    settled = {"HX-Request": "true", "HX-Trigger": "settled"}
    page = await browser.post("/console", {"query": "bell", "limit": "1"}, headers=settled)
    assert page.answer.headers["hx-push-url"] == "/console?query=bell&limit=1"
    assert page.all(".thumbs")
    assert page.all("a[rel=next]")


async def test_a_search_as_of_a_past_time_has_its_hits_and_no_facets(browser: Browser, admin: Caller) -> None:
    await admin.patch("/admin/settings", {"keep_versions_days": 30})
    entry = await admin.add("the bell tolls at noon")
    await admin.patch(f"/knowledge/entries/{entry['id']}", {"content": "the horn sounds at noon"})
    changed = (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["updated_at"]
    before = (datetime.fromisoformat(changed) - timedelta(microseconds=1)).isoformat()
    page = await browser.search("bell tolls", mode="keyword", as_of=before)
    assert page.status == 200
    assert "the bell tolls at noon" in page.one("#results").text_content()
    assert not page.all(".facets")
