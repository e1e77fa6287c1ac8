"""Permissions of many items at once, and the overviews of admins, over HTTP."""

from typing import Any

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.isolation.readers.changing import PATH, change
from tests.isolation.readers.conftest import Join

ALL = {"X-KB-Access": "all"}


async def test_readers_of_many_items_are_changed_by_a_filter(join: Join, work: Work) -> None:
    ann, hr = join("ann", "finance"), join("hanna", "hr")
    for n in range(3):
        await ann.add(f"Payroll of month {n}", tags=["payroll"], metadata={"month": n})
    await ann.upload("payroll.md", b"# Payroll\n\nPayroll of the year.", "text/markdown", tags="payroll")
    await ann.add("The pier opens", tags=["pier"])
    await work()
    assert len(await hr.find("payroll")) == 4
    done = await change(ann, {"tags": ["payroll"]}, readers={"set": ["group:finance"]})
    assert done == {"matched": 4, "changed": 4, "refused": []}
    assert await hr.find("payroll") == []
    months = {"filter": {"field": "metadata.month", "gte": 1}}
    tried = await change(ann, months, readers={"add": ["group:hr"]}, dry_run=True)
    assert (tried["matched"], tried["changed"]) == (2, 2)
    assert await hr.find("payroll") == []
    assert (await change(ann, months, readers={"add": ["group:hr"]}))["changed"] == 2
    assert sorted(await hr.find("payroll")) == ["Payroll of month 1", "Payroll of month 2"]
    again = await change(ann, months, readers={"add": ["group:hr"]})
    assert (again["matched"], again["changed"]) == (2, 0)
    taken = await change(hr, {"principal": "group:hr"}, readers={"remove": ["group:finance"]})
    assert taken["changed"] == 2
    assert len(await ann.find("payroll")) == 2
    assert (await change(ann, {"principal": "group:finance"}, readers={"set": None}))["changed"] == 2
    assert len(await hr.find("payroll")) == 4


async def test_items_that_cannot_be_changed_are_named(join: Join, admin: Caller, work: Work) -> None:
    ann, ben = join("ann", "finance"), join("ben", "payroll")
    tags = ["money"]
    open_entry = await ann.add("Open", tags=tags)
    mine = await ann.add("Mine", tags=tags, readers=["user:ann"])
    closed = await ben.add("Closed", tags=tags, writers=["group:payroll"])
    await ben.add("Hidden", tags=tags, readers=["group:payroll"])
    manifest = {"items": [{"external_id": "a.md", "digest": "1"}]}
    made = (await ann.request("PUT", "/knowledge/sources/shelf", json=manifest)).json()
    place = {"source": "shelf", "run": made["run"], "external_id": "a.md", "tags": "money"}
    file = (await ann.upload("a.md", b"From a source", "text/markdown", **place)).json()
    await work()
    lost = await change(ann, {"tags": tags}, readers={"remove": ["user:ann"]})
    assert await change(ann, {"tags": tags}, readers={"remove": ["user:ann"]}, dry_run=True) == lost
    reasons = {each["id"]: each["reason"] for each in lost["refused"]}
    assert reasons.keys() == {open_entry["id"], mine["id"], closed["id"], file["id"]}
    assert "set a list first" in reasons[open_entry["id"]]
    assert "would be empty" in reasons[mine["id"]]
    left = {"set": ["group:board"]}
    tried = await change(ann, {"tags": tags}, readers=left, dry_run=True)
    assert tried == await change(ann, {"tags": tags}, readers=left)
    assert (tried["changed"], len(tried["refused"])) == (0, 4)
    tried = await change(ann, {"tags": tags}, readers={"set": ["user:ann"]}, dry_run=True)
    kept = await change(ann, {"tags": tags}, readers={"set": ["user:ann"]})
    assert tried == kept
    assert kept["changed"] == 1
    reasons = {each["id"]: each["reason"] for each in kept["refused"]}
    assert "not one of them" in reasons[closed["id"]]
    assert "source, shelf" in reasons[file["id"]]
    seen = await change(admin, {"tags": tags}, readers={"set": None}, headers=ALL)
    assert (seen["matched"], seen["changed"], seen["refused"]) == (5, 3, [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"where": {}, "readers": {"set": None}}, "where"),
        ({"where": {"tags": ["a"]}}, "readers"),
        ({"where": {"tags": ["a"]}, "readers": {}}, "readers"),
        ({"where": {"tags": ["a"]}, "readers": {"set": None, "add": ["group:a"]}}, "readers"),
        ({"where": {"tags": ["a"]}, "writers": {"add": ["jane"]}}, "writers.add.0"),
        ({"where": {"tags": ["a"]}, "writers": {"add": ["group: a"]}}, "writers.add"),
        ({"where": {"principal": "finance"}, "readers": {"set": None}}, "where.principal"),
        ({"where": {"filter": {"field": "metadata.a"}}, "readers": {"set": None}}, "where.filter"),
        ({"where": {"tags": ["a"]}, "readers": {"set": None}, "cursor": "x"}, "cursor"),
    ],
)
async def test_a_wrong_change_names_its_field(join: Join, body: dict[str, Any], field: str) -> None:
    refused = await join("ann").patch(PATH, body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"].startswith(field)


async def test_an_admin_sees_who_may_read_an_item(
    join: Join, admin: Caller, work: Work, api_services: Services
) -> None:
    ann, rita = join("ann", "finance"), join("rita", "finance", role=Role.READER)
    entry = await ann.add("The payroll", readers=["group:finance", "user:ben"], writers=["group:finance"])
    asset = (await ann.upload("a.md", b"A file", "text/markdown", readers=["group:finance"])).json()
    await work()
    (hit,) = (await ann.search("file", mode="keyword"))["results"]
    for caller in (rita, join("cleo", "board")):
        await caller.get("/knowledge/entries")
    await api_services.subscriptions.close()
    assert (await admin.get(f"/admin/access/entries/{entry['id']}")).status_code == 403

    async def who(of: str) -> dict[str, Any]:
        answer = await admin.get(f"/admin/access/{of}", headers=ALL)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    seen = await who(f"entries/{entry['id']}")
    assert (seen["readers"], seen["decided_by"]) == (["group:finance", "user:ben"], "entry")
    callers = {each["subject"]: (each["groups"], each["writes"]) for each in seen["callers"]}
    assert callers == {"ann": (["finance"], True), "rita": (["finance"], False)}
    chunk = await who(f"entries/{hit['id']}")
    assert (chunk["decided_by"], chunk["asset_id"], chunk["readers"]) == ("asset", asset["id"], ["group:finance"])
    manifest = {"items": [], "readers": ["user:ann"]}
    await ann.request("PUT", "/knowledge/sources/till", json=manifest)
    source = await who("sources/till")
    assert (source["kind"], source["readers"], source["id"]) == ("source", ["user:ann"], None)
    for of in (f"entries/{asset['id']}", f"assets/{entry['id']}", "sources/none"):
        assert (await admin.get(f"/admin/access/{of}", headers=ALL)).status_code == 404


async def test_an_admin_sees_what_a_person_may_read(join: Join, admin: Caller, api_services: Services) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    await ann.add("The pier opens")
    entry = await ann.add("The payroll", readers=["group:finance"])
    await cleo.add("The board meets", readers=["group:board"])
    await api_services.subscriptions.close()
    cases: list[tuple[dict[str, Any], str, int, list[str]]] = [
        ({"subject": "ann"}, "token", 2, [entry["id"]]),
        ({"subject": "ann", "group": "board"}, "request", 2, []),
        ({"subject": "newcomer"}, "none", 1, []),
        ({"subject": "newcomer", "group": ["finance", "board"]}, "request", 3, [entry["id"]]),
    ]
    for params, origin, count, ids in cases:
        answer = await admin.get("/admin/access/subject", params=params, headers=ALL)
        seen = answer.json()
        assert (seen["groups_from"], seen["readable"]["entries"], seen["total"]["entries"]) == (origin, count, 3)
        assert [item["id"] for item in seen["items"] if item["name"] == "The payroll"] == ids
    pages = []
    params = {"subject": "x", "group": ["finance", "board"], "limit": 1}
    while True:
        page = (await admin.get("/admin/access/subject", params=params, headers=ALL)).json()
        pages += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert sorted(pages) == ["The board meets", "The payroll"]
    trail = (await admin.get("/admin/audit", params={"action": "access.read"}, headers=ALL)).json()["items"]
    assert {row["actor"] for row in trail} == {"ada"}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"subject": "a\x00b"}, "subject"),
        ({"subject": " jane"}, "subject"),
        ({"subject": "jane", "group": ["hr", "a\x00b"]}, "group"),
        ({"subject": "jane", "group": "a\nb"}, "group"),
    ],
)
async def test_a_person_that_no_token_can_name_is_refused(admin: Caller, params: dict[str, Any], field: str) -> None:
    refused = await admin.get("/admin/access/subject", params=params, headers=ALL)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field


async def test_a_caller_is_known_by_its_last_token(join: Join, admin: Caller, api_services: Services) -> None:
    await join("ann", "finance").get("/knowledge/entries")
    await api_services.subscriptions.close()
    await join("ann", "board", role=Role.READER).get("/knowledge/entries")
    await api_services.subscriptions.close()
    seen = (await admin.get("/admin/access/subject", params={"subject": "ann"}, headers=ALL)).json()
    assert (seen["groups"], seen["groups_from"]) == (["board"], "token")
    erased = await admin.post("/admin/erasures", {"subject": "ann"}, headers=ALL)
    assert {p["place"]: p["removed"] for p in erased.json()["places"]}["callers"] == 1
    seen = (await admin.get("/admin/access/subject", params={"subject": "ann"}, headers=ALL)).json()
    assert (seen["groups"], seen["groups_from"]) == ([], "none")
