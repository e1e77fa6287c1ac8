"""Why an entry is not among the results."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem
from tests.fixtures.providers.failing import FailingProvider


async def ask(caller: Caller, entry_id: str, **request: Any) -> dict[str, Any]:
    answer = await caller.post("/knowledge/search/why-not", {"entry_id": entry_id, "request": request})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def stages(answer: dict[str, Any]) -> list[str]:
    return [reason["stage"] for reason in answer["reasons"]]


async def test_an_entry_on_the_page_has_its_rank_and_no_reason(admin: Caller) -> None:
    entry = await admin.add("The harbour opens at six")
    answer = await ask(admin, entry["id"], query="harbour", mode="keyword")
    assert (answer["in_results"], answer["rank"], answer["reasons"]) == (True, 1, [])


async def test_an_entry_past_the_page_is_lost_to_the_page_limit(admin: Caller) -> None:
    await admin.add("harbour harbour harbour")
    entry = await admin.add("The harbour opens at six in the morning, all year round")
    answer = await ask(admin, entry["id"], query="harbour", mode="keyword", limit=1)
    assert (answer["in_results"], answer["rank"], stages(answer)) == (False, 2, ["cut"])


@pytest.mark.parametrize(
    ("request_filter", "named"),
    [
        ({"tags": ["crane"]}, "tags"),
        ({"role": "qa"}, "role"),
        ({"entry_type": "lesson"}, "entry_type"),
        ({"min_confidence": 0.9}, "min_confidence"),
        ({"scope": "project"}, "scope"),
        ({"source": "asset"}, "source"),
        ({"asset_id": [str(uuid4())]}, "asset_id"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
)
async def test_the_filter_that_excluded_an_entry_is_named(
    admin: Caller, request_filter: dict[str, Any], named: str
) -> None:
    entry = await admin.add("The harbour opens at six", roles=["dev"], confidence=0.5)
    answer = await ask(admin, entry["id"], query="harbour", **request_filter)
    assert [(r["stage"], r["detail"]) for r in answer["reasons"]] == [("filter", f"{named} does not match")]


async def test_superseded_and_expired_entries_are_explained(admin: Caller) -> None:
    newer = await admin.add("The harbour opens at seven")
    old = await admin.add("The harbour opens at six", superseded_by_id=newer["id"])
    gone = await admin.add("The harbour opens at five", expires_at="2020-01-01T00:00:00Z")
    assert "superseded" in (await ask(admin, old["id"], query="harbour"))["reasons"][0]["detail"]
    assert (await ask(admin, gone["id"], query="harbour"))["reasons"][0]["detail"] == "expired"


async def test_each_leg_explains_why_it_missed_an_entry(admin: Caller, provider: FailingProvider) -> None:
    entry = await admin.add("The harbour opens at six")
    answer = await ask(admin, entry["id"], query="quarterly budget", similarity_threshold=0.99)
    assert stages(answer) == ["semantic", "keyword"]
    assert "below the threshold" in answer["reasons"][0]["detail"]
    assert answer["reasons"][1]["detail"] == "shares no word with the query"
    provider.down = True
    answer = await ask(admin, entry["id"], query="another quarterly budget")
    assert "unavailable" in answer["reasons"][0]["detail"]


async def test_an_entry_displaced_by_nearer_ones_has_its_similarity(admin: Caller, provider: FailingProvider) -> None:
    provider.vectors["harbour"] = provider.direction(1.0)
    provider.vectors["The far pier"] = provider.direction(1.0, 1.0)
    entry = await admin.add("The far pier")
    provider.default = provider.direction(1.0, 0.1)
    try:
        for n in range(30):
            await admin.add(f"Pier {n}")
    finally:
        provider.default = None
    answer = await ask(admin, entry["id"], query="harbour", limit=10, similarity_threshold=0.5)
    assert stages(answer) == ["semantic", "keyword"]
    assert answer["reasons"][0]["detail"].startswith("similarity 0.707")
    assert "30 entries down to 0.99" in answer["reasons"][0]["detail"]


async def test_an_entry_with_a_part_of_an_identifier_is_explained(admin: Caller) -> None:
    await admin.add("KNOW-004: flags are removed")
    part = await admin.add("KNOW-040: flags have owners")
    answer = await ask(admin, part["id"], query="KNOW-004", mode="keyword")
    assert [r["detail"] for r in answer["reasons"]] == [
        "not searched in mode keyword",
        "has only parts of the identifier; 1 entries contain all of it",
    ]


async def test_a_misspelt_word_counts_as_its_correction(admin: Caller) -> None:
    for n in range(31):
        await admin.add("harbour " * (32 - n))
    last = await admin.add("The harbour opens at six in the morning, all year round")
    answer = await ask(admin, last["id"], query="harbuour", mode="keyword", limit=1)
    assert "shares words with the query" in answer["reasons"][1]["detail"]


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
@pytest.mark.parametrize(
    "request_filter", [{}, {"tags": ["crane"]}, {"min_confidence": 0.9}, {"include_superseded": True}]
)
async def test_another_tenants_entry_and_an_unknown_one_get_the_same_answer(
    admin: Caller, stranger: Caller, mode: str, request_filter: dict[str, Any]
) -> None:
    await admin.add("Our harbour opens at six", tags=["crane"])
    entry = await stranger.add("The harbour opens at six", tags=["crane"])
    foreign = await ask(admin, entry["id"], query="harbour", mode=mode, **request_filter)
    unknown = await ask(admin, str(uuid4()), query="harbour", mode=mode, **request_filter)
    differing = dict.fromkeys(("entry_id", "query_time_ms", "waiting_ms"))
    assert foreign | differing == unknown | differing
    assert stages(foreign) == ["entry"]


async def test_the_request_is_checked_as_a_search_is(reader: Caller) -> None:
    body = {"entry_id": str(uuid4()), "request": {"query": "word", "limit": 51}}
    expect_fields(await reader.post("/knowledge/search/why-not", body), "request.limit")


async def test_an_entry_can_be_named_by_its_external_id(admin: Caller, stranger: Caller) -> None:
    entry = await admin.add("The harbour opens at six", external_id="H1")
    await stranger.add("The quay is wet", external_id="Q1")
    answer = await ask(admin, "H1", query="harbour", mode="keyword")
    assert (answer["entry_id"], answer["in_results"]) == (entry["id"], True)
    for unknown in ("Q1", "nothing", "a\x00b"):
        body = {"entry_id": unknown, "request": {"query": "harbour"}}
        refused = expect_problem(await admin.post("/knowledge/search/why-not", body), 404)
        assert refused["type"] == "/problems/entry-not-found"
