"""The form of the search page: its fields, its addresses, and refusals at their fields."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.console.search_form import INPUTS, SearchForm
from app.console.words import read_list, write_list
from tests.console.browser import Browser, Page, all_fields
from tests.console.search_pages import form_of, search_id
from tests.fixtures.http.callers import Caller

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
    options = {name: value for name, value in asked.items() if name not in ELSEWHERE}
    assert receipt["options"] == options
    for name in ELSEWHERE - {"query_embedding"}:
        assert receipt[name] == asked[name], name
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
    count = len({*found} - {"query", "explain", "group_by", "facets"})
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
