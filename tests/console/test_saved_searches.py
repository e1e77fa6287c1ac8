"""Saved searches, ratings and feedback."""

from uuid import UUID, uuid4

import orjson

from app.composition.services import Services
from tests.console.browser import Browser, all_fields
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


PART = {"HX-Request": "true"}
PATH = "/console/feedback"


async def test_a_hit_is_rated_and_rated_again(browser: Browser, admin: Caller) -> None:
    await admin.add("The bell", title="Bells")
    page = await browser.search("bell", mode="keyword")
    form = page.one(".hit form.thumbs")
    assert [b.get("aria-pressed") for b in form.cssselect("button")] == ["false", "false"]
    given = {name: values[0] for name, values in all_fields(form).items()}
    assert given["next"] == "/console?query=bell&mode=keyword"
    liked = await browser.post(PATH, {**given, "relevant": "true"}, headers=PART)
    assert [b.get("aria-pressed") for b in liked.all("button")] == ["true", "false"]
    assert not liked.all("main")
    report = (await admin.get("/admin/feedback")).json()
    assert (report["relevant"], report["not_relevant"]) == (1, 0)
    again = {name: values[0] for name, values in all_fields(liked.one("form")).items()}
    assert again == given
    whole = await browser.post(PATH, {**again, "relevant": "false"})
    assert "not useful" in whole.one("main").text_content()
    assert whole.one("main a").get("href") == given["next"]
    report = (await admin.get("/admin/feedback")).json()
    assert (report["relevant"], report["not_relevant"]) == (0, 1)


async def test_a_rating_of_another_callers_search_is_refused(
    browser: Browser, sign_in: SignIn, admin: Caller, reader: Caller
) -> None:
    await admin.add("The bell")
    form = all_fields((await browser.search("bell")).one(".hit form.thumbs"))
    given = {name: values[0] for name, values in form.items()} | {"relevant": "true"}
    other = await sign_in(reader).post(PATH, given, headers=PART)
    assert other.status == 404
    assert other.answer.headers["hx-retarget"] == "#problem"
    for wrong in ({"entry_id": str(uuid4())}, {"entry_id": "x"}, {"relevant": "perhaps"}, {"search_id": ""}):
        assert (await browser.post(PATH, {**given, **wrong})).status == 422, wrong
    away = await browser.post(PATH, {**given, "next": "https://elsewhere.test/console"})
    assert away.one("main a").get("href") == "/console"


FEEDBACK = "/console/feedback"
FEEDBACK_SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"


async def test_queries_are_named_only_where_they_are_kept(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    await admin.search("zeppelin", mode="keyword")
    await api_services.journal.flush()
    page = await browser.get(FEEDBACK)
    assert page.texts(".figures dd") == ["1", "0", "0"]
    assert "The texts of queries are not kept" in page.text
    assert "zeppelin" not in page.text


async def test_each_query_without_results_leads_to_what_helps(
    browser: Browser, admin: Caller, api_services: Services
) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    entry = await admin.add(f"The harbour {FEEDBACK_SCRIPT}", title=FEEDBACK_SCRIPT)
    found = await admin.search("harbour", mode="keyword")
    body = {"search_id": found["metadata"]["search_id"], "entry_id": entry["id"], "relevant": False}
    assert (await admin.post("/knowledge/feedback", body)).status_code == 200
    await admin.search(f"zeppelin {FEEDBACK_SCRIPT}", mode="keyword", tags=["none"])
    await api_services.journal.flush()
    page = await browser.get(FEEDBACK)
    assert not page.all("main script, main img")
    missed = page.all("section[aria-labelledby=empty-heading] tbody a")
    assert missed[0].text == f"zeppelin {FEEDBACK_SCRIPT}"
    assert (await browser.get(missed[0].get("href"))).status == 200
    written = await browser.get(missed[1].get("href"))
    assert written.one("#field-title").get("value") == f"zeppelin {FEEDBACK_SCRIPT}"
    why = await browser.get(missed[2].get("href"))
    assert why.status == 200
    asked = dict(why.one('form[action="/console/why-not"]').form_values())
    told = await browser.get("/console/why-not", asked | {"entry_id": entry["id"]})
    assert "The entry is" in told.text

    (disliked,) = page.texts("section[aria-labelledby=disliked-heading] tbody tr")
    assert disliked.startswith(f"{FEEDBACK_SCRIPT} 1 0 harbour")
    steps = [a.get("href") for a in page.all("section[aria-labelledby=disliked-heading] td.row-actions a")]
    assert [(await browser.get(step)).status for step in steps] == [200, 200]


async def test_an_empty_tenant_has_a_page(browser: Browser) -> None:
    page = await browser.get(FEEDBACK)
    assert "Every search found something." in page.text
    assert "No result was marked as not useful." in page.text


LIST_OF_RECEIPTS = "/console/receipts"
RECEIPTS_SCRIPT = "<script>alert(1)</script>"


async def test_the_list_shows_the_same_searches_as_the_api(browser: Browser, admin: Caller) -> None:
    await admin.add("The harbour")
    found = await admin.search("harbour")
    empty = await admin.search("zeppelin", mode="keyword")
    listed = (await admin.get("/admin/searches")).json()["items"]
    assert [line["id"] for line in listed] == [result["metadata"]["search_id"] for result in (empty, found)]
    assert [(line["result_count"], line["query"]) for line in listed] == [(0, None), (1, None)]
    page = await browser.get(LIST_OF_RECEIPTS)
    assert [a.get("href") for a in page.all("tbody th a")] == [f"{LIST_OF_RECEIPTS}/{line['id']}" for line in listed]
    assert "harbour" not in page.text, "queries are not kept"
    only = await browser.get(LIST_OF_RECEIPTS, {"without_results": "true"})
    assert len(only.all("tbody tr")) == 1
    assert not (await browser.get(LIST_OF_RECEIPTS, {"subject": "another caller"})).all("tbody tr")
    by_name = (await admin.get("/admin/searches", params={"subject": listed[0]["subject"]})).json()
    assert len(by_name["items"]) == 2


async def test_pages_of_the_list_follow_each_other(browser: Browser, admin: Caller) -> None:
    for number in range(27):
        await admin.search(f"query {number}", mode="keyword")
    first = await browser.get(LIST_OF_RECEIPTS, {"without_results": "true"})
    second = await browser.get(first.one("a[rel=next]").get("href"))
    seen = [a.get("href") for page in (first, second) for a in page.all("tbody th a")]
    assert len(seen) == len(set(seen)) == 27


async def test_a_receipt_shows_the_ranking_and_the_settings(browser: Browser, admin: Caller) -> None:
    await admin.patch("/admin/settings", {"keep_query_text": True})
    entry = await admin.add(f"The harbour {RECEIPTS_SCRIPT}", title=RECEIPTS_SCRIPT, tags=["sea"])
    found = await admin.search(f"harbour {RECEIPTS_SCRIPT}", mode="keyword", tags=["sea"])
    page = await browser.get(f"{LIST_OF_RECEIPTS}/{found['metadata']['search_id']}")
    assert page.status == 200
    assert page.texts("h1") == [f"harbour {RECEIPTS_SCRIPT}"]
    assert page.one("tbody th a").get("href") == f"/console/entries/{entry['id']}"
    facts = dict(zip(page.texts("dl.facts dt"), page.texts("dl.facts dd"), strict=True))
    assert (facts["Mode"], facts["Tags"]) == ("keyword", "sea")
    again = await browser.get(page.one("dl.facts dd a").get("href"))
    assert again.status == 200
    assert again.all(".hit")
    assert not page.all("main script")


async def test_a_search_is_run_again_with_its_query(browser: Browser, admin: Caller, api_services: Services) -> None:
    entry = await admin.add("The harbour", title="Harbour")
    found = await admin.search("harbour", mode="keyword")
    address = f"{LIST_OF_RECEIPTS}/{found['metadata']['search_id']}"
    assert (await browser.get(address)).one("#query") is not None
    refused = await browser.post(f"{address}/replay", {"query": "boats"})
    assert refused.status == 422
    assert "is not the query of this search" in refused.one("#query-error").text
    same = await browser.post(f"{address}/replay", {"query": "harbour"})
    assert same.texts("#replay h2") == ["The same ranking again"]
    await admin.delete(f"/knowledge/entries/{entry['id']}")
    other = await browser.post(f"{address}/replay", {"query": "harbour"})
    assert other.texts("#replay h2") == ["1 candidate differs"]
    assert other.texts("#replay tbody td")[-1] == "deleted"
    await api_services.journal.flush()
    assert (await admin.get("/admin/stats")).json()["searches_24h"] == 1


async def test_an_unknown_receipt_is_not_found(browser: Browser) -> None:
    assert (await browser.get(f"{LIST_OF_RECEIPTS}/{uuid4()}")).status == 404
    assert (await browser.post(f"{LIST_OF_RECEIPTS}/{uuid4()}/replay", {"query": "x"})).status == 404
    assert (await browser.get(LIST_OF_RECEIPTS, {"subject": "a\x00b"})).status == 422
