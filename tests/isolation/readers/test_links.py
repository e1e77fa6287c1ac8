"""Links between entries, which tell that their targets exist, and changes of the readers of both."""

from __future__ import annotations

from typing import Any

from tests.fixtures.http.callers import Caller
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
    assert [status for status, _ in done] == ["created", "failed", "created", "failed"]
    for _, error in (done[1], done[3]):
        assert error == "parent_id: must be an entry that all readers of this one may read"
    assert (await ann.find("wages overtime")) == ["Wages"]
    for body in (
        {"content": "Overtime", "parent_id": parent["id"]},
        {"content": "x", "external_id": "wages", "readers": None},
    ):
        refused = await ann.post("/knowledge/entries", body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "parent_id")
