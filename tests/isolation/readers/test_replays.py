"""The replay of a search of a caller that may not read everything."""

from typing import Any

from tests.fixtures.http.callers import Caller
from tests.isolation.readers.conftest import Join

ALL = {"X-KB-Access": "all"}


async def test_a_replay_finds_what_the_caller_found(join: Join, admin: Caller) -> None:
    ann, ben, cleo = join("ann", "finance"), join("ben", "finance", "board"), join("cleo")
    assert (await admin.patch("/admin/settings", {"keep_versions_days": 30})).status_code == 200
    await ann.add("The payroll of the harbour")
    await ann.add("The payroll of the pilots", readers=["group:finance"])
    await ben.add("The payroll of the board", readers=["group:board"])

    async def replay(answer: dict[str, Any]) -> dict[str, Any]:
        path = f"/admin/searches/{answer['metadata']['search_id']}/replay"
        found = await admin.post(path, {"query": "payroll"}, headers=ALL)
        assert found.status_code == 200, found.text
        result: dict[str, Any] = found.json()
        return result

    for caller, count in ((cleo, 1), (ann, 2), (ben, 3)):
        answer = await caller.search("payroll")
        assert len(answer["results"]) == count
        assert (await replay(answer))["same"]
    seen = (await admin.request("POST", "/knowledge/search", json={"query": "payroll"}, headers=ALL)).json()
    assert len(seen["results"]) == 3
    assert (await replay(seen))["same"]
    receipt = await admin.get(f"/admin/searches/{seen['metadata']['search_id']}", headers=ALL)
    assert "principals" not in receipt.json()
