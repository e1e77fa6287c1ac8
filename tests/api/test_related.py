"""Related entries over HTTP."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.api.fields import ENTRY
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields

RELATED = ENTRY | {"relationship", "overlap_count"}


async def test_related_entries_come_in_the_order_of_the_contract(admin: Caller) -> None:
    parent = await admin.add("The parent", tags=["a", "b", "c"])
    entry = await admin.add("The entry", parent_id=parent["id"], tags=["a", "b", "c"])
    sibling = await admin.add("The sibling", parent_id=parent["id"], tags=["a", "b"])
    two = await admin.add("Shares two", tags=["a", "b", "x"])
    three = await admin.add("Shares three", tags=["c", "b", "a"])
    await admin.add("Shares one", tags=["a"])
    await admin.add("Superseded", tags=["a", "b"], superseded_by_id=two["id"])
    await admin.add("Expired", tags=["a", "b"], expires_at="2020-01-01T00:00:00Z")
    answer = await admin.get(f"/knowledge/entries/{entry['id']}/related")
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"results", "metadata"}
    assert all(set(result) == RELATED for result in body["results"])
    assert [(r["id"], r["relationship"], r["overlap_count"]) for r in body["results"]] == [
        (parent["id"], "parent", None),
        (sibling["id"], "sibling", None),
        (three["id"], "tag_overlap", 3),
        (two["id"], "tag_overlap", 2),
    ]
    assert body["metadata"] == {
        "total": 4,
        "relationship_types": ["parent", "sibling", "tag_overlap"],
    }
    short = await admin.get(f"/knowledge/entries/{entry['id']}/related", params={"limit": 2})
    assert [r["id"] for r in short.json()["results"]] == [parent["id"], sibling["id"]]
    assert short.json()["metadata"]["relationship_types"] == ["parent", "sibling"]


async def test_an_unknown_id_has_no_relations(reader: Caller) -> None:
    answer = await reader.get(f"/knowledge/entries/{uuid4()}/related")
    assert answer.status_code == 200
    assert answer.json() == {"results": [], "metadata": {"total": 0, "relationship_types": []}}


@pytest.mark.parametrize(("limit", "status"), [(1, 200), (20, 200)])
async def test_the_limits_of_the_contract_are_accepted(reader: Caller, limit: int, status: int) -> None:
    answer = await reader.get(f"/knowledge/entries/{uuid4()}/related", params={"limit": limit})
    assert answer.status_code == status


@pytest.mark.parametrize("limit", ["0", "21", "-1", "x", ""])
async def test_a_limit_outside_its_range_is_refused(reader: Caller, limit: str) -> None:
    expect_fields(await reader.get(f"/knowledge/entries/{uuid4()}/related", params={"limit": limit}), "limit")
