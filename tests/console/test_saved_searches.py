"""The pages of saved searches: each visitor sees and changes only their own."""

from __future__ import annotations

from uuid import UUID, uuid4

import orjson

from tests.console.browser import Browser
from tests.console.conftest import SignIn
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.callers import Caller

LIST = "/console/saved-searches"
SCRIPT = "<script>alert(1)</script>\"'"


async def test_a_search_is_saved_run_replaced_and_deleted(browser: Browser, admin: Caller) -> None:
    await admin.add("The harbour closes at dusk", tags=["sea, deep"])
    request = {"query": "harbour", "mode": "keyword", "tags": ["sea, deep"], "limit": 3}
    form = {"name": "Night", "request": orjson.dumps(request).decode()}
    saved = await browser.post(LIST, form)
    assert (saved.status, saved.answer.headers["location"]) == (303, f"{LIST}?done=saved")
    page = await browser.get(LIST)
    run = page.one("tbody th a").get("href")
    found = (await browser.get(run)).answer.headers["location"]
    assert "The harbour closes at dusk" in (await browser.get(found)).text
    replaced = await browser.post(LIST, {**form, "request": '{"query": "bell"}'})
    assert replaced.answer.headers["location"] == f"{LIST}?done=replaced"
    page = await browser.get(LIST)
    assert page.texts("tbody td[data-label='Query']") == ["bell"]
    forget = page.one("a[href$='/delete']").get("href")
    led = await browser.get(forget.replace("/delete", "/run"))
    assert led.answer.headers["location"] == "/console?query=bell"
    assert "bell" in (await browser.get(forget)).text
    assert (await browser.post(forget)).status == 303
    assert (await browser.get(LIST)).all(".empty")


async def test_a_search_too_long_for_an_address_is_run_by_its_id(browser: Browser, admin: Caller) -> None:
    await admin.add("The harbour closes at dusk")
    request = {"query": "harbour " + "港" * 9_000, "mode": "keyword"}
    saved = await admin.post("/knowledge/saved-searches", {"name": "Long", "request": request})
    assert saved.status_code == 201
    page = await browser.get((await browser.get(LIST)).one("tbody th a").get("href"))
    assert page.status == 200
    assert page.one("#query").get("value") == request["query"]
    assert page.texts(".hit .snippet") == ["The harbour closes at dusk"]


async def test_the_parameters_of_a_saved_search_are_shown_in_words(browser: Browser, admin: Caller) -> None:
    request = {
        "query": "bell",
        "tags": ["sea", "iron"],
        "entry_type": ["temp_note"],
        "group_by": "asset",
        "weights": {"semantic": 0.25, "keyword": 0.75},
        "filter": {"field": "metadata.year", "gte": 2020},
    }
    await admin.post("/knowledge/saved-searches", {"name": "Bells", "request": request})
    page = await browser.get(LIST)
    assert page.texts("td[data-label=Query] .faint") == [
        "Semantic weight: 0.25",
        "Keyword weight: 0.75",
        "Tags: sea, iron",
        "Entry type: temporary note",
        'Conditions: {"gte":2020,"field":"metadata.year"}',
        "Group results: by document",
    ]
    assert not page.all("td[data-label=Subscription]"), "there are none"


async def test_a_subscription_is_shown(browser: Browser, admin: Caller) -> None:
    request = {"name": "N", "request": {"query": "word"}}
    saved = (await admin.post("/knowledge/saved-searches", request)).json()["id"]
    address = "https://example.com/hook"
    await admin.post(f"/knowledge/saved-searches/{saved}/subscription", {"url": address})
    row = (await browser.get(LIST)).texts("tbody td[data-label=Subscription]")
    again = "Send the challenge again for N"
    assert row == [f"active waiting for the endpoint to agree to {address} {again}"]
    assert "This also ends its subscription" in (await browser.get(f"{LIST}/{saved}/delete")).text


async def test_another_challenge_is_sent_to_an_endpoint_that_has_not_agreed(
    browser: Browser, admin: Caller, api_database: TestDatabase
) -> None:
    request = {"name": "N", "request": {"query": "word"}}
    saved = (await admin.post("/knowledge/saved-searches", request)).json()["id"]
    await admin.post(f"/knowledge/saved-searches/{saved}/subscription", {"url": "https://example.com/hook"})
    button = f"{LIST}/{saved}/subscription/confirmation"
    async with connected(api_database.superuser_dsn) as superuser:
        set_confirmation = "update subscriptions set confirmation = $1, challenges = 5 where saved_search_id = $2"
        await superuser.execute(set_confirmation, "refused", UUID(saved))
        assert "refused by the endpoint" in (await browser.get(LIST)).text
        assert (await browser.get(LIST)).one(f"form[action='{button}']").get("method") == "post"
        asked = await browser.post(button)
        assert (asked.status, asked.answer.headers["location"]) == (303, f"{LIST}?done=asked")
        page = await browser.get(f"{LIST}?done=asked")
        assert "gets another challenge" in page.one("p.notice").text_content()
        found = await superuser.fetchrow(
            "select confirmation, challenges from subscriptions where saved_search_id = $1", UUID(saved)
        )
        assert found is not None
        assert tuple(found) == ("pending", 0)
        await superuser.execute(set_confirmation, "confirmed", UUID(saved))
    assert not (await browser.get(LIST)).all(f"form[action='{button}']")
    assert (await browser.post(f"{LIST}/{uuid4()}/subscription/confirmation")).status == 404


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"name": " "}, "name", "at least 1 character"),
    ({"name": "x" * 201}, "name", "at most 200 characters"),
    ({"request": "{"}, "request", "must be a JSON object"),
    ({"request": "[]"}, "request", "must be a JSON object"),
    ({"request": "{}"}, "request", "query: is required"),
    ({"request": '{"query": "a", "limit": 0}'}, "request", "limit: must be"),
    ({"request": '{"query": "a", "cursor": "x"}'}, "request", "cursor: cannot be saved"),
    ({"request": f'{{"query": "a", "{SCRIPT[:8]}": 1}}'}, "request", "unknown field"),
]
"""The input, the field that is wrong, and the error shown for it."""


async def test_an_error_is_shown_at_its_field(browser: Browser) -> None:
    for form, field, message in WRONG:
        page = await browser.post(LIST, {"name": "N", "request": '{"query": "a"}', **form})
        assert page.status == 422, form
        assert message in page.one(f"#field-{field}-error").text_content()
        assert page.one("details.panel").get("open") is not None
        assert page.one("[name=name]").get("value") == form.get("name", "N")


async def test_each_visitor_has_their_own_saved_searches(
    sign_in: SignIn, browser: Browser, reader: Caller, stranger: Caller
) -> None:
    others = []
    for caller in (reader, stranger):
        body = {"name": "Canary", "request": {"query": "canary"}}
        others.append((await caller.post("/knowledge/saved-searches", body)).json()["id"])
    assert "anary" not in (await browser.get(LIST)).text
    assert "Canary" in (await sign_in(reader).get(LIST)).text
    for saved in (*others, str(uuid4())):
        pages = [await browser.get(f"{LIST}/{saved}/{act}") for act in ("run", "delete")]
        pages.append(await browser.post(f"{LIST}/{saved}/delete"))
        assert [(p.status, p.texts("h1")) for p in pages] == [(404, ["This does not exist"])] * 3
    assert "Canary" in (await sign_in(reader).get(LIST)).text


async def test_saved_text_is_shown_as_text(browser: Browser, admin: Caller) -> None:
    request = {"query": SCRIPT, "tags": [SCRIPT], "metadata": {SCRIPT: SCRIPT}}
    saved = await admin.post("/knowledge/saved-searches", {"name": SCRIPT, "request": request})
    for address in (LIST, f"{LIST}/{saved.json()['id']}/delete"):
        page = await browser.get(address)
        assert not page.all("main script")
        assert page.answer.text.count("alert(1)") >= 2


async def test_only_a_page_of_the_console_changes_saved_searches(browser: Browser, admin: Caller) -> None:
    request = {"name": "N", "request": {"query": "word"}}
    saved = (await admin.post("/knowledge/saved-searches", request)).json()["id"]
    for path in (LIST, f"{LIST}/{saved}/delete"):
        answer = await browser.http.post(path, data={"name": "M", "request": "{}"})
        assert answer.status_code == 403
    assert (await admin.get(f"/knowledge/saved-searches/{saved}")).status_code == 200
