"""Entries, assets and sources with writers, over HTTP: who may read one may not always change it."""

from typing import Any

import pytest

from app.auth.principal import Role
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.isolation.readers.conftest import Join

ALL = {"X-KB-Access": "all"}
TEXT = b"# Payroll\n\nThe payroll of the harbour pilots is due in May.\n"


def is_refused(answer: Any) -> bool:
    return bool(answer.status_code == 403 and answer.json()["type"] == "/problems/not-a-writer")


async def test_only_writers_change_an_entry(join: Join, admin: Caller) -> None:
    ann, ben, cleo = join("ann", "finance"), join("ben", "finance", "payroll"), join("cleo", "board")
    entry = await ben.add("The payroll is due in May", readers=["group:finance"], writers=["group:payroll"])
    assert entry["writers"] == ["group:payroll"]
    path = f"/knowledge/entries/{entry['id']}"
    for method, body in (("PATCH", {"title": "Mine"}), ("PATCH", {"writers": None}), ("DELETE", None)):
        assert is_refused(await ann.request(method, path, json=body)), method
        assert (await cleo.request(method, path, json=body)).status_code == 404, method
    seen = (await ann.get(path)).json()
    assert (seen["title"], seen["version"], seen["writers"]) == (None, 1, ["group:payroll"])
    assert await ann.find("payroll") == ["The payroll is due in May"]
    changed = await ben.patch(path, {"title": "Payroll"})
    assert (changed.status_code, changed.json()["title"]) == (200, "Payroll")
    # An admin needs to be one of them, too, or to ask for all.
    assert (await admin.patch(path, {"title": "Mine"})).status_code == 404
    assert (await admin.patch(path, {"title": "By the admin"}, headers=ALL)).status_code == 200
    assert (await ben.patch(path, {"writers": None})).status_code == 200
    assert (await ann.patch(path, {"title": "Ours"})).status_code == 200


async def test_writers_need_the_role_too(join: Join) -> None:
    ben, reader = join("ben", "payroll"), join("rita", "payroll", role=Role.READER)
    entry = await ben.add("The payroll is due in May", writers=["group:payroll"])
    assert (await reader.delete(f"/knowledge/entries/{entry['id']}")).status_code == 403
    assert (await ben.delete(f"/knowledge/entries/{entry['id']}")).status_code == 204


async def test_a_known_identity_is_not_written_over(join: Join) -> None:
    ann, ben = join("ann", "finance"), join("ben", "payroll")
    await ben.add("The payroll is due in May", external_id="pay", writers=["group:payroll"])
    await ben.add("Overtime is paid in June", writers=["group:payroll"])
    again = {"content": "The payroll is cancelled", "external_id": "pay"}
    assert is_refused(await ann.post("/knowledge/entries", again))
    assert is_refused(await ann.post("/knowledge/entries", {"content": "Overtime is paid in June", "tags": ["x"]}))
    many = {"entries": [again, {"content": "The pier opens"}]}
    results = (await ann.post("/knowledge/entries/bulk", many)).json()["results"]
    assert [result["status"] for result in results] == ["failed", "created"]
    assert "writers" in results[0]["error"]
    assert sorted(await ben.find("payroll overtime")) == ["Overtime is paid in June", "The payroll is due in May"]


async def test_a_writer_stays_one(join: Join) -> None:
    ann = join("ann", "finance")
    refused = await ann.post("/knowledge/entries", {"content": "For others", "writers": ["group:board"]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "writers"
    entry = await ann.add("For us", writers=["group:finance"])
    changed = await ann.patch(f"/knowledge/entries/{entry['id']}", {"writers": ["user:ben"]})
    assert changed.status_code == 422
    for writers in ([], ["finance"], ["group:"], [f"user:{n}" for n in range(65)]):
        answer = await ann.post("/knowledge/entries", {"content": "x", "writers": writers})
        assert answer.status_code == 422, writers


async def test_chunks_have_the_writers_of_their_asset(join: Join, work: Work) -> None:
    ann, ben = join("ann", "finance"), join("ben", "payroll")
    given = {"external_id": "pay", "writers": ["group:payroll", "user:ben"]}
    asset = (await ben.upload("pay.md", TEXT, "text/markdown", **given)).json()
    assert asset["writers"] == ["group:payroll", "user:ben"]
    await work()
    path = f"/knowledge/assets/{asset['id']}"
    (hit,) = (await ann.search("payroll", mode="keyword"))["results"]
    chunk = f"/knowledge/entries/{hit['id']}"
    assert (await ann.get(chunk)).json()["writers"] == ["group:payroll", "user:ben"]
    for answer in (
        await ann.patch(chunk, {"tags": ["mine"]}),
        await ann.patch(path, {"title": "Mine"}),
        await ann.post(f"{path}/retry"),
        await ann.upload("pay.md", b"Nothing is due.", "text/markdown", external_id="pay"),
        await ann.upload("pay.md", TEXT, "text/markdown", external_id="pay", tags="mine"),
        await ann.delete(path),
    ):
        assert is_refused(answer), answer.text
    assert (await ben.patch(chunk, {"tags": ["ours"]})).status_code == 200
    assert (await ben.patch(chunk, {"writers": None})).status_code == 409
    assert (await ben.patch(path, {"writers": None})).status_code == 200
    assert (await ann.patch(chunk, {"tags": ["mine"]})).status_code == 200
    assert (await ann.delete(path)).status_code == 204


async def test_a_source_gives_its_assets_its_readers_and_writers(join: Join, work: Work) -> None:
    crawler, hr, ann = join("crawler", "sync"), join("hanna", "hr"), join("ann", "finance")
    items: list[dict[str, Any]] = [
        {"external_id": "pier.md", "digest": "1"},
        {"external_id": "hr/pay.md", "digest": "2", "readers": ["group:hr"]},
    ]
    path = "/knowledge/sources/shelf"
    refused = await crawler.request("PUT", path, json={"items": items})
    assert refused.json()["errors"][0]["field"] == "writers"
    body = {"items": items, "writers": ["user:crawler"]}
    made = (await crawler.request("PUT", path, json=body)).json()
    assert (made["readers"], made["writers"], made["items"]) == (None, ["user:crawler"], 2)
    for external_id, text in (("pier.md", b"The pier opens."), ("hr/pay.md", TEXT)):
        place = {"source": "shelf", "run": made["run"], "external_id": external_id}
        assert is_refused(await ann.upload("x.md", text, "text/markdown", **place)) or "hr" in external_id
        answer = await crawler.upload("x.md", text, "text/markdown", **place)
        assert answer.status_code == 202, answer.text
    await work()
    assert len(await hr.find("payroll")) == len(await crawler.find("payroll")) == 1
    assert await ann.find("payroll") == []
    # What they may not read is in no number, and no list.
    for caller, ids in ((ann, ["pier.md"]), (hr, ["hr/pay.md", "pier.md"]), (crawler, ["hr/pay.md", "pier.md"])):
        seen = (await caller.get(path)).json()
        assert (seen["items"], seen["indexed"], seen["missing"]) == (len(ids), len(ids), 0)
        listed = (await caller.get(f"{path}/items")).json()["items"]
        assert [item["external_id"] for item in listed] == ids
        assert (await caller.get("/knowledge/sources")).json()["items"][0]["items"] == len(ids)
    for answer in (await ann.request("PUT", path, json={"items": [], "allow_empty": True}), await hr.delete(path)):
        assert is_refused(answer), answer.text
    asset = (await hr.search("payroll", mode="keyword"))["results"][0]["asset_id"]
    assert is_refused(await hr.delete(f"/knowledge/assets/{asset}"))
    assert (await crawler.patch(f"/knowledge/assets/{asset}", {"readers": None})).status_code == 422
    # The next manifest has other readers for it, and keeps the writers.
    items[1]["readers"] = ["group:finance"]
    again = (await crawler.request("PUT", path, json={"items": items, "run": made["run"]})).json()
    assert (again["changed"], again["missing"], again["writers"]) == (0, 0, ["user:crawler"])
    assert len(await ann.find("payroll")) == 1
    assert await hr.find("payroll") == []


async def test_a_hidden_source_keeps_its_name(join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    made = await ann.request("PUT", "/knowledge/sources/till", json={"items": [], "readers": ["group:finance"]})
    assert (made.status_code, made.json()["readers"]) == (201, ["group:finance"])
    for path in ("", "/items"):
        assert (await cleo.get(f"/knowledge/sources/till{path}")).status_code == 404
    assert (await cleo.get("/knowledge/sources")).json()["items"] == []
    taken = await cleo.request("PUT", "/knowledge/sources/till", json={"items": []})
    assert (taken.status_code, taken.json()["type"]) == (409, "/problems/source-taken")
    assert (await cleo.delete("/knowledge/sources/till")).status_code == 404


@pytest.mark.parametrize("tool", ["kb_update", "kb_delete"])
async def test_agents_are_refused_as_callers_are(join: Join, tool: str) -> None:
    ann, ben = join("ann"), join("ben", "payroll")
    entry = await ben.add("The payroll is due in May", writers=["group:payroll"])
    arguments = {"entry_id": entry["id"]} | ({"title": "Mine"} if tool == "kb_update" else {})
    call = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = (await ann.post("/mcp", body, headers=headers)).json()["result"]
    assert answer["isError"]
    assert answer["structuredContent"]["type"] == "/problems/not-a-writer"
    assert not (await ben.post("/mcp", body, headers=headers)).json()["result"].get("isError")
