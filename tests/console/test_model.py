"""The page of a tenant's model change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.composition.services import Services
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
