"""Links between entries, which tell that their targets exist, and changes of the readers of both."""

from typing import Any

from tests.fixtures.http.callers import Caller
from tests.isolation.readers.changing import change
from tests.isolation.readers.conftest import Join

FINANCE = ["group:finance"]


async def write_many(caller: Caller, *entries: dict[str, Any]) -> list[tuple[str, str | None]]:
    answer = await caller.post("/knowledge/entries/bulk", {"entries": entries})
    assert answer.status_code == 200, answer.text
    return [(result["status"], result["error"]) for result in answer.json()["results"]]


async def test_a_link_to_a_hidden_entry_fails_alone_among_many_entries(join: Join) -> None:
    ann = join("ann", "finance")
    parent = await ann.add("The payroll", readers=FINANCE)
    await ann.add("Wages", readers=FINANCE, external_id="wages", parent_id=parent["id"])
    done = await write_many(
        ann,
        {"content": "The pier opens"},
        {"content": "Overtime", "parent_id": parent["id"]},
        {"content": "Bonuses", "source_ids": [parent["id"]], "readers": FINANCE},
        {"content": "Wages", "external_id": "wages", "readers": None},
    )
    # In a new entry null is "not given": the readers of the known one stay.
    assert [status for status, _ in done] == ["created", "failed", "created", "unchanged"]
    assert done[1][1] == "parent_id: must be an entry that all readers of this one may read"
    assert (await ann.find("wages overtime")) == ["Wages"]
    wages = (await ann.post("/knowledge/entries", {"content": "Wages", "external_id": "wages"})).json()
    for field, refused in (
        ("parent_id", await ann.post("/knowledge/entries", {"content": "Overtime", "parent_id": parent["id"]})),
        ("readers", await ann.patch(f"/knowledge/entries/{wages['id']}", {"readers": None})),
    ):
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)


async def test_a_change_of_linked_entries_keeps_their_links(join: Join) -> None:
    """In whatever order they are listed: a child is newer than its parent, and a successor than what it supersedes."""
    ann = join("ann", "finance")
    parent = await ann.add("The payroll", tags=["pay"])
    child = await ann.add("Wages", tags=["pay"], parent_id=parent["id"])
    grandchild = await ann.add("Overtime", tags=["pay"], parent_id=child["id"], source_ids=[parent["id"]])
    successor = await ann.add("The payroll of May", tags=["pay"])
    path = f"/knowledge/entries/{parent['id']}"
    assert (await ann.patch(path, {"superseded_by_id": successor["id"]})).status_code == 200
    for readers in (FINANCE, ["group:finance", "user:ann"], ["user:ann"], None):
        tried = await change(ann, {"tags": ["pay"]}, readers={"set": readers}, dry_run=True)
        done = await change(ann, {"tags": ["pay"]}, readers={"set": readers})
        assert tried == done == {"matched": 4, "changed": 4, "refused": []}
        seen = [(await ann.get(f"/knowledge/entries/{entry['id']}")).json() for entry in (parent, child, grandchild)]
        assert [entry["readers"] for entry in seen] == [readers] * 3
        assert [entry["parent_id"] for entry in seen] == [None, parent["id"], child["id"]]
        assert (seen[0]["superseded_by_id"], seen[2]["source_ids"]) == (successor["id"], [parent["id"]])
    # A link to an entry that is not selected ends, or is in the way.
    where = {"ids": [parent["id"]]}
    assert (await change(ann, where, readers={"set": FINANCE}))["refused"] == []
    assert (await ann.get(f"/knowledge/entries/{child['id']}")).json()["parent_id"] is None
    below = {"ids": [child["id"], grandchild["id"]]}
    assert (await change(ann, below, readers={"set": FINANCE}))["refused"] == []
    for dry_run in (True, False):
        last = {"ids": [grandchild["id"]]}
        (refused,) = (await change(ann, last, readers={"set": None}, dry_run=dry_run))["refused"]
        assert "all readers of this one may read" in refused["reason"]
