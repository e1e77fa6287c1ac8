"""Pages of searches."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.console.hits import show_cells
from app.console.search_form import INPUTS, SearchForm
from app.console.words import read_list, write_list
from tests.console.browser import Browser, Page, all_fields
from tests.console.conftest import SignIn
from tests.console.contents import form_of, search_id
from tests.fixtures.http.application import Work
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
    document = page.one(".hit .source a")
    assert (document.text_content(), document.get("title")) == ("Guide", "guide.md")
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


EVERYTHING: dict[str, Any] = {
    "query": "who rings the bell",
    "mode": "semantic",
    "limit": 7,
    "similarity_threshold": 0.25,
    "weights": {"semantic": 0.5, "keyword": 0.5},
    "role": "dev",
    "tags": ["sea", 'a, "quoted" one'],
    "tags_match": "all",
    "entry_type": ["fact", "lesson"],
    "min_confidence": 0.5,
    "scope": "project",
    "source": "entry",
    "asset_id": [str(uuid4()), str(uuid4())],
    "metadata": {"team": "ops"},
    "filter": {"field": "metadata.year", "gte": 2020},
    "created_after": "2026-01-01T00:00:00+00:00",
    "created_before": "2026-02-01T00:00:00+00:00",
    "updated_after": "2026-01-01T00:00:00+00:00",
    "updated_before": "2026-02-01T00:00:00+00:00",
    "as_of": "2026-01-01T00:00:00+00:00",
    "include_superseded": True,
    "boost": ["type", "verified"],
    "fusion": "score",
    "rrf_k": 20,
    "ef_search": 50,
    "query_embedding": [0.5] * 16,
    "explain": True,
    "diversity": 0.5,
    "rerank": False,
    "group_by": "asset",
    "facets": ["tags", "metadata.team"],
    "cursor": "a-cursor",
}
ELSEWHERE = {"mode", "fusion", "weights", "rrf_k", "similarity_threshold", "query", "query_embedding"}


def test_a_request_round_trips_through_an_address() -> None:
    form = SearchForm.of_request(EVERYTHING)
    assert form_of(form.address()).request() == EVERYTHING
    assert SearchForm.of_request({"query": "a", "rerank": True}).request() == {"query": "a", "rerank": True}
    assert SearchForm.of_request({**EVERYTHING, "include_superseded": False, "role": None}).request() == {
        n: v for n, v in EVERYTHING.items() if n not in ("include_superseded", "role")
    }


@pytest.mark.parametrize("items", [["a"], ["a", "b c"], ["a,b", 'say "no"', "c"], ['"'], ["-", "ä,\nö"]])
def test_a_list_round_trips_through_a_field(items: list[str]) -> None:
    assert read_list(write_list(items)) == items


async def test_every_parameter_reaches_the_service(browser: Browser, admin: Caller, api_services: Services) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    # The tenant keeps no former versions.
    asked = {name: value for name, value in EVERYTHING.items() if name not in ("cursor", "as_of")}
    page = await browser.get(SearchForm.of_request(asked).address())
    assert page.status == 200
    await api_services.journal.flush()
    receipt = (await admin.get(f"/admin/searches/{search_id(page)}")).json()
    options = {name: value for name, value in asked.items() if name not in ELSEWHERE} | {"query_embedding": True}
    assert receipt["options"] == options
    for name in ELSEWHERE - {"query_embedding"}:
        assert receipt[name] == asked[name], name
    shown = await browser.get(f"/console/receipts/{search_id(page)}")
    assert "given" in shown.one("main").text_content()
    # The given vector replaces the query's own: the provider was not called.
    assert "embedding 0" in page.one(".times").text_content()
    names = {e.get("name") for e in page.one("#search").cssselect("input, select, textarea")}
    assert names == set(INPUTS) - {"cursor"}


async def test_the_form_shows_the_submitted_search(browser: Browser) -> None:
    asked = {name: value for name, value in EVERYTHING.items() if name != "cursor"}
    page = await browser.get(SearchForm.of_request(asked).address())
    found = {name: values for name, values in all_fields(page.one("form#search")).items() if any(values)}
    assert SearchForm(found).request() == asked
    # All fields except the query, the explain option, and what the page shows elsewhere.
    count = len({*found} - {"query", "explain", "group_by", "duplicates", "facets"})
    assert f"{count} set" in page.one("#parameters summary").text_content()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("limit", "51", "must be between 1 and 50"),
        ("entry_type", "song", "must be fact"),
        ("query_embedding", "[1, 2]", "must have 16 numbers"),
        ("query", "", "is required"),
    ],
)
async def test_a_refusal_is_shown_at_its_field(browser: Browser, name: str, value: str, says: str) -> None:
    page = await browser.get("/console", {"query": "bell", name: value})
    assert page.status == 422
    (field,) = [e for e in page.all("[aria-invalid=true]") if name in (e.get("name"), *_names(e))]
    (problem,) = [e for e in page.all(".field-error") if e.get("id") in field.get("aria-describedby")]
    assert says in problem.text_content()
    assert page.all("details[open]") or name == "query"
    assert not page.all(".hit")


def _names(group: Any) -> list[str]:
    return [e.get("name") for e in group.cssselect("input")]


async def test_the_form_redirects_to_the_address_of_its_search(browser: Browser) -> None:
    form = (await browser.get("/console")).one("form#search")
    assert (form.get("method"), form.get("action")) == ("post", "/console")
    sent = await browser.post("/console", {**all_fields(form), "query": "bell", "limit": "5"})
    assert (sent.status, sent.answer.headers["location"]) == (303, "/console?query=bell&limit=5")


async def test_a_search_too_long_for_an_address_continues_as_a_form(browser: Browser, admin: Caller) -> None:
    for number in range(3):
        await admin.add(f"Bell number {number}", tags=["sea", f"n{number}"])
    asked = {"query": "bell " + "鐘" * 9_000, "mode": "keyword", "limit": "2"}
    page = await browser.post("/console", asked)
    assert page.status == 200
    assert page.texts(".hit .number[aria-hidden]") == ["1", "2"]
    assert not [a for a in page.all("a[href], [hx-get]") if len(a.get("href") or a.get("hx-get")) > 2_000]

    async def press(page: Page, says: str, within: str = "main") -> Page:
        buttons = page.all(f"{within} button[form=again]")
        button = next(b for b in buttons if b.text_content().strip().startswith(says))
        return await browser.post(button.get("formaction"), all_fields(page.one("form#again")))

    following = await press(page, "Next")
    assert following.texts(".hit .number[aria-hidden]") == ["3"]
    assert (await press(following, "First")).texts(".hit .number[aria-hidden]") == ["1", "2"]
    narrowed = await press(await press(page, "sea", ".facets"), "Next")
    assert narrowed.texts(".hit .number[aria-hidden]") == ["3"]
    assert narrowed.texts(".facets .active") == ["sea ×"]
    compared = await press(page, "Compare")
    assert "hits on both sides" in compared.text
    assert (await press(compared, "setting")).status == 200
    why = page.one("form[action='/console/why-not']")
    assert why.get("method") == "post"
    answer = await browser.post("/console/why-not", {**all_fields(why), "entry_id": str(uuid4())})
    assert "there is no entry with this id" in answer.text
    part = await browser.post("/console", asked, headers={"HX-Request": "true"})
    assert part.answer.headers["hx-push-url"] == "/console"


async def test_hits_are_grouped_by_document(browser: Browser, admin: Caller, work: Work) -> None:
    text = "".join(f"# Bell {n}\n\n" + f"The {n} bell rings. " * 60 + "\n\n" for n in ("old", "new", "big", "odd"))
    await admin.upload("guide.md", text.encode(), "text/markdown")
    await work()
    page = await browser.search("bell rings", mode="keyword")
    assert len(page.all(".hit")) == 4
    (documents,) = [a for a in page.all(".switch a") if a.text_content() == "By document"]
    assert page.texts(".switch [aria-current]") == ["One by one"]
    grouped = await browser.get(documents.get("href"))
    assert len(grouped.all(".hit")) == 1
    assert grouped.texts(".hit h3 a") == ["guide.md"]
    assert grouped.texts(".switch [aria-current]") == ["By document"]
    passages = grouped.all(".hit .passages a")
    assert len(passages) == 4
    assert {a.text_content() for a in passages} == {"Bell old", "Bell new", "Bell big", "Bell odd"}
    for passage in passages:
        opened = await browser.get(passage.get("href").partition("#")[0])
        assert passage.text_content() in opened.text
        assert opened.all("mark.passage")
    (passages,) = [a for a in grouped.all(".switch a") if a.text_content() == "One by one"]
    assert form_of(passages.get("href")).request() == {"query": "bell rings", "mode": "keyword"}


async def test_a_search_without_results_shows_what_may_help(
    browser: Browser, admin: Caller, sign_in: SignIn, reader: Caller
) -> None:
    await admin.add("The bell rings", tags=["sea"])
    page = await browser.search("bell", tags="land", mode="keyword")
    wider = page.one(".nothing a.plain")
    assert wider.get("href") == "/console?query=bell"
    assert "(2 are set)" in page.text
    assert (await browser.get(wider.get("href"))).all(".hit")
    (write,) = [a for a in page.all(".nothing a") if a.text_content() == "write an entry"]
    form = await browser.get(write.get("href"))
    assert form.one("#field-title").get("value") == "bell"
    nothing = await sign_in(reader).search("zyzzyva", mode="keyword")
    assert "write an entry" not in nothing.text
    grouped = await browser.search("zyzzyva", group_by="asset", limit="5", similarity_threshold="0.99")
    assert "(1 is set)" in grouped.text
    assert not (await browser.search("bell")).all(".nothing")


async def test_the_number_of_results_reads_naturally(browser: Browser, admin: Caller) -> None:
    for number in range(12):
        await admin.add(f"Bell number {number}")
    page = await browser.search("bell", mode="keyword")
    assert page.texts("#answer h2[data-announce]") == ["1 to 10 of 12 results"]
    assert (await browser.search("bell", mode="keyword", limit="20")).texts("#answer h2[data-announce]") == [
        "12 results"
    ]


@pytest.mark.parametrize(
    ("snippet", "shown"),
    [
        (
            "…| When | | Platform team | after 30 minutes | | Paylane |…",
            "… · When · Platform team · after 30 minutes · Paylane · …",
        ),
        ("| Level | Meaning | |---|:--:| | SEV1 | All | every…", "Level · Meaning · SEV1 · All · every…"),
        ("Run cat a.log | sort | uniq -c", "Run cat a.log | sort | uniq -c"),
        ("either a || b", "either a || b"),
        ("", ""),
    ],
)
def test_cells_of_a_table_have_dots_between_them_and_commands_keep_their_pipes(snippet: str, shown: str) -> None:
    assert show_cells(snippet) == shown
