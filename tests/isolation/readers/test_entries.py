"""Entries and assets with readers, over HTTP."""

import asyncio
import re
from uuid import uuid4

import pytest

from app.auth.principal import Role
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem
from tests.isolation.readers.conftest import Join

TIMES = re.compile(r'"(request_id|\w+_ms)": ?("\w+"|\d+)')
ALL = {"X-KB-Access": "all"}
TEXT = b"# Payroll\n\nThe payroll of the harbour pilots is secret.\n"


async def test_only_readers_find_and_read_an_entry(join: Join) -> None:
    ann, ben, cleo = join("ann", "finance"), join("ben", "finance", "board"), join("cleo", "board")
    entry = await ann.add("The payroll is due in May", readers=["user:ann", "group:finance"])
    assert entry["readers"] == ["group:finance", "user:ann"]
    open_entry = await ann.add("The pier opens in May")
    path = f"/knowledge/entries/{entry['id']}"
    for caller, sees in ((ann, True), (ben, True), (cleo, False)):
        assert (await caller.get(path)).status_code == (200 if sees else 404)
        texts = ["The payroll is due in May"] * sees + ["The pier opens in May"]
        for mode in ("keyword", "semantic", "hybrid"):
            found = await caller.search("May", mode=mode, similarity_threshold=0)
            assert sorted(hit["content"] for hit in found["results"]) == texts, mode
        listed = (await caller.get("/knowledge/entries")).json()["items"]
        assert sorted(item["content"] for item in listed) == texts
    assert open_entry["readers"] is None


async def test_an_unreadable_entry_is_answered_as_one_that_does_not_exist(join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    hidden = (await ann.add("The payroll is due", readers=["group:finance"]))["id"]
    own = await cleo.add("The pier opens")
    unknown = str(uuid4())
    for method, path, body in (
        ("GET", "/knowledge/entries/{}", None),
        ("PATCH", "/knowledge/entries/{}", {"title": "Mine"}),
        ("DELETE", "/knowledge/entries/{}", None),
        ("GET", "/knowledge/entries/{}/related", None),
        ("GET", "/knowledge/entries/{}/versions", None),
        ("PATCH", f"/knowledge/entries/{own['id']}", {"parent_id": "{}"}),
        ("PATCH", f"/knowledge/entries/{own['id']}", {"source_ids": ["{}"]}),
        ("PATCH", f"/knowledge/entries/{own['id']}", {"superseded_by_id": "{}"}),
        ("POST", "/knowledge/search/why-not", {"entry_id": "{}", "request": {"query": "payroll"}}),
    ):
        answers = []
        for entry_id in (hidden, unknown):
            filled = None if body is None else eval(repr(body).replace("{}", entry_id))  # noqa: S307
            answer = await cleo.request(method, path.format(entry_id), json=filled)
            text = TIMES.sub("", answer.text.replace(entry_id, "ID"))
            answers.append((answer.status_code, text))
        assert answers[0] == answers[1], (method, path)
    assert (await ann.get(f"/knowledge/entries/{hidden}")).status_code == 200


async def test_a_writer_is_one_of_the_readers(join: Join) -> None:
    ann = join("ann", "finance")
    refused = await ann.post("/knowledge/entries", {"content": "For others", "readers": ["group:board"]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "readers"
    entry = await ann.add("For us", readers=["group:finance"])
    changed = await ann.patch(f"/knowledge/entries/{entry['id']}", {"readers": ["user:ben"]})
    assert changed.status_code == 422
    for readers in ([], ["finance"], ["group:"], [f"user:{n}" for n in range(65)], ["group: x"]):
        answer = await ann.post("/knowledge/entries", {"content": "x", "readers": readers})
        assert answer.status_code == 422, readers


async def test_the_same_identity_exists_once_for_each_set_of_readers(join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    hidden = await ann.add("The same words", external_id="one", readers=["group:finance"])
    other = await cleo.add("The same words", external_id="one")
    assert other["id"] != hidden["id"]
    again = await cleo.post("/knowledge/entries", {"content": "Changed words", "external_id": "one"})
    assert (again.status_code, again.json()["id"]) == (200, other["id"])
    text = await ann.add("Without a name", readers=["group:finance"])
    mine = await cleo.add("Without a name")
    assert mine["id"] != text["id"]
    kept = await ann.get(f"/knowledge/entries/{hidden['id']}")
    assert kept.json()["content"] == "The same words"


async def test_a_change_of_readers_holds_at_once(join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    entry = await ann.add("The payroll is due", tags=["money"])
    path = f"/knowledge/entries/{entry['id']}"
    assert await cleo.find("payroll") == ["The payroll is due"]
    assert (await ann.patch(path, {"readers": ["group:finance"]})).status_code == 200
    assert await cleo.find("payroll") == []
    assert (await cleo.search("payroll", mode="semantic", similarity_threshold=0))["results"] == []
    assert (await cleo.get("/knowledge/tags")).json()["items"] == []
    assert (await ann.get("/knowledge/tags")).json()["items"] == [{"tag": "money", "count": 1}]
    assert (await ann.patch(path, {"readers": None})).status_code == 200
    assert await cleo.find("payroll") == ["The payroll is due"]
    assert (await cleo.get("/knowledge/tags")).json()["items"] == [{"tag": "money", "count": 1}]


async def test_links_stay_within_the_readers(join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    target = await ann.add("The secret part", readers=["group:finance"])
    for field, value in (("parent_id", target["id"]), ("source_ids", [target["id"]])):
        answer = await ann.post("/knowledge/entries", {"content": f"Open {field}", field: value})
        assert answer.status_code == 422, answer.text
    inner = await ann.add("Inner", parent_id=target["id"], readers=["group:finance"])
    opened = await ann.patch(f"/knowledge/entries/{inner['id']}", {"readers": None})
    assert opened.status_code == 422
    base = await ann.add("The base")
    linked = await cleo.add("A link", parent_id=base["id"], source_ids=[base["id"]])
    await ann.patch(f"/knowledge/entries/{base['id']}", {"readers": ["group:finance"]})
    seen = (await cleo.get(f"/knowledge/entries/{linked['id']}")).json()
    assert (seen["parent_id"], seen["source_ids"]) == (None, [])


async def test_chunks_have_the_readers_of_their_asset(join: Join, work: Work) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    asset = (await ann.upload("pay.md", TEXT, "text/markdown", readers=["group:finance"])).json()
    assert asset["readers"] == ["group:finance"]
    await work()
    assert len(await ann.find("payroll")) == 1
    assert await cleo.find("payroll") == []
    path = f"/knowledge/assets/{asset['id']}"
    for place in ("", "/text", "/content", "/versions"):
        assert (await cleo.get(path + place)).status_code == 404, place
    mine = (await cleo.upload("mine.md", TEXT, "text/markdown")).json()
    assert (mine["id"] != asset["id"], mine["duplicate_of"]) == (True, None)
    await work()
    assert len(await cleo.find("payroll")) == 1
    assert len(await ann.find("payroll")) == 1
    assert (await cleo.delete(f"/knowledge/assets/{mine['id']}")).status_code == 204
    await ann.patch(path, {"readers": None})
    assert len(await cleo.find("payroll")) == 1
    await ann.patch(path, {"readers": ["user:ann"]})
    assert await cleo.find("payroll") == []


@pytest.mark.parametrize("path", ["/admin/stats", "/admin/audit", "/admin/erasures", "/admin/feedback"])
async def test_an_admin_sees_all_only_by_asking(admin: Caller, join: Join, path: str) -> None:
    ann = join("ann", "finance")
    assert (await admin.get(path)).status_code == 200
    entry = await ann.add("The payroll is due", readers=["group:finance"])
    place = f"/knowledge/entries/{entry['id']}"
    for _ in range(30):
        if (refused := await admin.get(path)).status_code == 403:
            break
        await asyncio.sleep(0.1)
    assert refused.status_code == 403
    assert (await admin.get(place)).status_code == 404
    assert (await admin.get(path, headers=ALL)).status_code == 200
    assert (await admin.get(place, headers=ALL)).json()["content"] == "The payroll is due"
    assert (await ann.get(place, headers=ALL)).status_code == 403
    assert (await admin.get(place, headers={"X-KB-Access": "some"})).status_code == 422
    trail = (await admin.get("/admin/audit", headers=ALL)).json()["items"]
    assert "access.all" in {row["action"] for row in trail}
    assert (await join("root", role=Role.READER).get(place)).status_code == 404


async def test_the_explanation_of_a_later_page_has_no_entry_that_was_hidden_since(join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    ids = [(await ann.add(f"The payroll of month {n}"))["id"] for n in range(4)]
    first = await cleo.search("payroll", mode="keyword", limit=1)
    _, second, third, _ = sorted(ids, reverse=True)
    assert (await ann.patch(f"/knowledge/entries/{second}", {"readers": ["group:finance"]})).status_code == 200
    page = await cleo.search("payroll", limit=2, explain=True, cursor=first["metadata"]["next_cursor"])
    assert [hit["id"] for hit in page["results"]] == [third]
    assert [(hit["id"], hit["rank"]) for hit in page["debug_info"]["hits"]] == [(third, 3)]
    assert second not in str(page)


async def test_a_cursor_of_lost_rights_tells_nothing(join: Join) -> None:
    ann, less, more = join("ann", "finance"), join("ann"), join("ann", "finance", "board")
    for n in range(4):
        await ann.add(f"The payroll of month {n}", readers=["group:finance"])
    first = await ann.search("payroll", mode="keyword", limit=1)
    asked = {"query": "payroll", "cursor": first["metadata"]["next_cursor"]}
    problem = expect_problem(await less.post("/knowledge/search", asked), 410)
    assert "lost rights" in problem["detail"]
    for caller in (ann, more):
        assert (await caller.search(**asked))["metadata"]["total"] == 4
