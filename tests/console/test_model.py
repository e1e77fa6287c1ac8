"""The page of a tenant's model change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lxml import html

from app.composition.services import Services
from app.console.rendering import templates
from app.contract.models import Comparison, Quality
from app.knowledge.reembedding.machine import SOURCES
from tests.console.browser import Browser
from tests.fixtures.http.callers import Caller

MODEL = "/console/model"


async def test_vectors_are_rebuilt_from_the_page(
    browser: Browser, admin: Caller, work: Callable[[], Awaitable[None]]
) -> None:
    await admin.add("A fact")
    page = await browser.get(MODEL)
    assert page.texts("h2") == ["Move to the other model", "Rebuild"]
    answer = await browser.post(MODEL, {"action": "rebuild"})
    assert answer.status in (200, 303)
    page = await browser.get(MODEL)
    assert page.texts(".figures dd")[0] == "filling"
    assert "nothing is compared" in page.texts("#account li")[0]
    await work()
    page = await browser.get(MODEL)
    assert page.texts(".figures dd")[:2] == ["switched", "100 %"]
    assert (await browser.post(MODEL, {"action": "end"})).status in (200, 303)
    assert "No model change is in progress." in (await browser.get(MODEL)).text


async def test_opening_the_page_is_recorded_as_a_read_and_not_as_a_refusal(browser: Browser, admin: Caller) -> None:
    page = await browser.get(MODEL)
    assert "The service has no other model." in page.text
    assert not page.all("[name=by_hand]")
    trail = (await admin.get("/admin/audit", params={"action": "model.read"})).json()["items"]
    assert [(record["action"], record["outcome"]) for record in trail] == [("model.read", "done")]


async def test_an_action_that_is_not_possible_is_explained(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    assert (await browser.post(MODEL, {"action": "switch"})).status == 404
    refused = await browser.post(MODEL, {"action": "start"})
    assert refused.status == 422
    assert "EMBEDDING_NEXT_PROVIDER" in refused.text
    assert (await browser.post(MODEL, {"action": "upgrade"})).status == 422
    assert admin.tenant_id is not None
    await api_services.reembedding.rebuild(admin.tenant_id)
    assert (await browser.post(MODEL, {"action": "switch"})).status == 409


async def test_a_start_takes_the_rate_of_the_form(browser: Browser, admin: Caller) -> None:
    await admin.add("A fact")
    for rate in ("many", "0"):
        refused = await browser.post(MODEL, {"action": "rebuild", "rate": rate})
        assert (refused.status, "rate" in refused.text) == (422, True)
    assert (await browser.post(MODEL, {"action": "rebuild", "rate": "600"})).status == 303
    assert (await admin.get("/admin/reembed")).json()["rate"] == 600


def test_the_comparison_is_a_table_of_its_measures() -> None:
    found = Comparison(
        queries=40,
        source="queries",
        depth=10,
        overlap=0.81,
        semantic_overlap=0.6,
        same=7,
        empty=0,
        judgements=12,
        judged=9,
        quality=Quality(0.5, 0.75, -0.1, 0.6),
        semantic_quality=Quality(0.5, 0.25, -0.4, -0.1),
    )
    macros: Any = templates.get_template("parts/model_comparison.html").module
    tree = html.fromstring(f"<div>{macros.comparison(found, SOURCES)}</div>")
    rows = [[" ".join(cell.text_content().split()) for cell in row] for row in tree.cssselect("tbody tr")]
    assert rows == [
        ["First 10 hits that both find, whole searches", "81 %", ""],
        ["First 10 hits that both find, by meaning", "60 %", ""],
        ["Queries with the same hits in the same order", "7", ""],
        ["nDCG@10, whole searches", "0.500", "0.750", "not certain +0.250 -0.100 to +0.600"],
        ["nDCG@10, by meaning", "0.500", "0.250", "worse -0.250 -0.400 to -0.100"],
    ]
