"""The search page: what is asked reaches the service, and what is answered is shown."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from starlette.datastructures import QueryParams

from app.composition.services import Services
from app.console.parts.search_form import NAMES, SearchForm, read_list, write_list
from app.web.models.search import SearchRequest
from tests.console.browser import Browser, Page, all_fields
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider

EVERYTHING: dict[str, Any] = {
    "query": "who rings the bell",
    "mode": "semantic",
    "limit": 7,
    "similarity_threshold": 0.25,
    "weights": {"semantic": 0.4, "keyword": 0.6},
    "role": "dev",
    "tags": ["sea", 'a, "quoted" one'],
    "tags_match": "all",
    "entry_type": ["fact", "lesson"],
    "min_confidence": 0.5,
    "scope": "project",
    "source": "entry",
    "asset_id": [str(uuid4()), str(uuid4())],
    "metadata": {"team": "ops"},
    "include_superseded": True,
    "boost": ["type", "verified"],
    "fusion": "score",
    "rrf_k": 20,
    "ef_search": 50,
    "query_embedding": [0.5] * 16,
    "explain": True,
    "diversity": 0.5,
    "cursor": "a-cursor",
}
ELSEWHERE = {"mode", "fusion", "weights", "rrf_k", "similarity_threshold", "query", "query_embedding"}


def form_of(address: str) -> SearchForm:
    return SearchForm.read(QueryParams(urlsplit(address).query))


def test_the_form_has_every_parameter_of_the_api() -> None:
    fields = set(SearchRequest.model_fields)
    assert set(EVERYTHING) == fields
    assert {name.split(".")[0] for name in NAMES} == fields


def test_a_request_survives_its_way_through_an_address() -> None:
    form = SearchForm.of_request(EVERYTHING)
    assert form_of(form.address()).request() == EVERYTHING
    assert SearchForm.of_request({**EVERYTHING, "include_superseded": False, "role": None}).request() == {
        n: v for n, v in EVERYTHING.items() if n not in ("include_superseded", "role")
    }


@pytest.mark.parametrize("items", [["a"], ["a", "b c"], ["a,b", 'say "no"', "c"], ['"'], ["-", "ä,\nö"]])
def test_a_list_survives_its_way_through_a_field(items: list[str]) -> None:
    assert read_list(write_list(items)) == items


async def test_every_parameter_reaches_the_service(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    asked = {name: value for name, value in EVERYTHING.items() if name != "cursor"}
    page = await browser.get(SearchForm.of_request(asked).address())
    assert page.status == 200
    await api_services.journal.flush()
    receipt = (await admin.get(f"/admin/searches/{search_id(page)}")).json()
    options = {name: value for name, value in asked.items() if name not in ELSEWHERE}
    assert receipt["options"] == options
    for name in ELSEWHERE - {"query_embedding"}:
        assert receipt[name] == asked[name], name
    # The given vector stands for the query's own: the provider was not asked.
    assert "embedding 0" in page.one(".summary").text_content()
    fields = {e.get("name") for e in page.one("#search").cssselect("input, select, textarea")}
    assert fields == set(NAMES) - {"cursor"}


async def test_the_form_shows_what_was_asked(browser: Browser) -> None:
    asked = {name: value for name, value in EVERYTHING.items() if name != "cursor"}
    page = await browser.get(SearchForm.of_request(asked).address())
    found = {name: values for name, values in all_fields(page.one("form#search")).items() if any(values)}
    assert SearchForm(found).request() == asked
    # All but the query and the wish for an explanation.
    count = len({*found} - {"query", "explain"})
    assert f"{count} set" in page.one("#parameters summary").text_content()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("limit", "51", "must be between 1 and 50"),
        ("limit", "many", "must be an integer"),
        ("rrf_k", "0", "must be at least 1"),
        ("mode", "magic", "must be hybrid, semantic or keyword"),
        ("entry_type", "song", "must be fact"),
        ("asset_id", "no-id", "must be a UUID"),
        ("metadata", "[1]", "must be a JSON object"),
        ("weights.semantic", "2", "must be at most 1"),
        ("query_embedding", "[1, 2]", "must have 16 numbers"),
        ("query", "", "is required"),
        ("similarity_threshold", "nan", "finite"),
        ("tags", "x" * 101, "1 to 100 characters"),
    ],
)
async def test_a_refusal_stands_at_its_field(browser: Browser, name: str, value: str, says: str) -> None:
    page = await browser.get("/console", {"query": "bell", name: value})
    assert page.status == 422
    (field,) = [e for e in page.all("[aria-invalid=true]") if name in (e.get("name"), *_names(e))]
    (problem,) = [e for e in page.all(".field-error") if e.get("id") in field.get("aria-describedby")]
    assert says in problem.text_content()
    assert page.all("details[open]") or name == "query"
    assert not page.all(".hit")


def _names(group: Any) -> list[str]:
    return [e.get("name") for e in group.cssselect("input")]


async def test_a_hit_shows_where_it_comes_from(browser: Browser, admin: Caller) -> None:
    await admin.add("Nobody rings it", title="Bells & <whistles>", tags=["sea", "iron"], is_verified=True)
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
    assert page.one("[data-announce]").text_content().startswith("1 of 1 ")
    assert hit.cssselect("h3 a")[0].get("href") == f"/console/entries/{entry['id']}"


async def test_the_score_is_told_so_that_it_adds_up(browser: Browser, admin: Caller) -> None:
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
                sum_ = (
                    0.0 if calculation == "adds nothing" else eval(calculation.replace("×", "*"))  # noqa: S307 (numbers and signs alone)
                )
                assert sum_ == pytest.approx(float(adds), abs=2e-4)
                total += float(adds)
            *factors, score = (
                e.text_content().replace("×", "").strip() for e in table.cssselect("tfoot .number")
            )
            for factor in factors[1:]:
                total *= float(factor)
            assert total == pytest.approx(float(score), abs=2e-4)


async def test_the_chart_and_its_table_tell_the_ranks(browser: Browser, admin: Caller) -> None:
    for number in range(4):
        await admin.add(f"Bell number {number}" + " tolls" * number, title=f"Bell {number}")
    found = await admin.search("bell tolls", explain=True, similarity_threshold=0)
    page = await browser.search("bell tolls", similarity_threshold="0")
    rows = page.all("#ranks-heading ~ details tbody tr")
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


async def test_pages_go_on_and_back(browser: Browser, admin: Caller) -> None:
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


async def test_a_ranking_that_is_gone_is_said_so(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell")
    page = await browser.get("/console", {"query": "bell", "cursor": "AAAAAAAAAAAAAAAAAAAAAAAAAAA"})
    assert page.status == 410
    assert page.all("[role=alert]")
    bad = await browser.get("/console", {"query": "bell", "cursor": "nonsense"})
    assert bad.status == 422
    assert "next_cursor" in bad.text


async def test_a_search_by_words_alone_says_so(
    browser: Browser, admin: Caller, provider: FailingProvider
) -> None:
    await admin.add("The bell")
    provider.down = True
    page = await browser.search("bell")
    assert "words alone answered" in page.one(".notice.warning").text_content()
    assert page.all(".hit")


async def test_nothing_found_offers_what_there_is(browser: Browser, admin: Caller) -> None:
    await admin.add("The boat lies there", tags=["harbour"])
    page = await browser.search("harbour", mode="keyword", tags="nowhere")
    assert page.one("[data-announce]").text_content() == "Nothing found."
    assert not page.all("svg.ranks")
    assert page.texts("#facets-heading") == ["Filters"]
    for link in page.all("#answer > p a"):
        assert (await browser.get(link.get("href"))).status == 200


async def test_an_htmx_request_gets_the_short_address(browser: Browser) -> None:
    page = await browser.get(
        "/console",
        {"query": "bell", "mode": "", "role": "", "rrf_k": "60", "limit": "5"},
        headers={"HX-Request": "true"},
    )
    assert page.answer.headers["hx-push-url"] == "/console?query=bell&limit=5"


async def test_a_problem_does_not_take_the_place_of_the_page(browser: Browser, admin: Caller) -> None:
    headers = {"HX-Request": "true"}
    gone = {"query": "bell", "cursor": "AAAAAAAAAAAAAAAAAAAAAAAAAAA"}
    page = await browser.get("/console", gone, headers=headers)
    assert page.status == 410
    assert page.answer.headers["hx-retarget"] == "#problem"
    assert not page.all("main")


async def test_the_form_leads_to_the_address_of_its_search(browser: Browser) -> None:
    form = (await browser.get("/console")).one("form#search")
    assert (form.get("method"), form.get("action")) == ("post", "/console")
    sent = await browser.post("/console", {**all_fields(form), "query": "bell", "limit": "5"})
    assert (sent.status, sent.answer.headers["location"]) == (303, "/console?query=bell&limit=5")


async def test_a_search_too_long_for_an_address_goes_on_as_a_form(browser: Browser, admin: Caller) -> None:
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


def search_id(page: Page) -> str:
    """The id of the search that a page shows."""
    return str(page.one("#keep-heading ~ p .mono").text_content())


async def test_a_link_that_leads_to_a_comparison_keeps_the_search(browser: Browser) -> None:
    page = await browser.search("bell", tags="sea", boost="type", rrf_k="5")
    (link,) = [a for a in page.all("a.button") if "Compare" in a.text_content()]
    query = parse_qs(urlsplit(link.get("href")).query)
    assert query == {
        "query": ["bell"], "tags": ["sea"], "a.fusion": ["rrf"], "b.fusion": ["score"], "a.rrf_k": ["5"],
        "b.rrf_k": ["5"], "a.boost": ["type"], "b.boost": ["type"],
    }  # fmt: skip
