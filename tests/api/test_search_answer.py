"""Answers of a search."""

import math
from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from tests.api.notes import add_notes
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import run_due


async def test_a_search_of_an_empty_tenant_finds_nothing(reader: Caller) -> None:
    found = await reader.search("anything at all")
    assert found["results"] == []
    assert found["metadata"]["total"] == 0
    assert found["metadata"]["suggestions"] == []


def recompute(debug: dict[str, Any], hit: dict[str, Any]) -> float:
    """Recompute a hit's score from the output of `explain` only."""
    weights = debug["weights"]
    if debug["fusion"] == "rrf":
        ranks = {"semantic": hit["semantic_rank"], "keyword": hit["keyword_rank"]}
        terms = {leg: weights[leg] / (debug["rrf_k"] + n) if n else 0.0 for leg, n in ranks.items()}
    else:
        words = ((hit["keyword_score"] or 0.0) / (debug["keyword_scale"] or 1.0)) ** 1.5
        terms = {
            "semantic": weights["semantic"] * max(1 - debug["cosine_stretch"] * (1 - (hit["cosine"] or 0.0)), 0.0),
            "keyword": weights["keyword"] * words,
        }
    assert hit["semantic_term"] == pytest.approx(terms["semantic"])
    assert hit["keyword_term"] == pytest.approx(terms["keyword"])
    assert set(hit["boosts"]) == set(debug["boost"])
    return float(sum(terms.values()) * math.prod(hit["boosts"].values()))


@pytest.mark.parametrize("down", [False, True], ids=["both legs", "provider down"])
@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_explain_makes_every_score_recomputable(
    admin: Caller, provider: FailingProvider, work: Work, fusion: str, down: bool
) -> None:
    provider.vectors["harbour"] = provider.direction(1.0, 0.2)
    provider.vectors["A pier, found by its vector"] = provider.direction(1.0)
    provider.vectors["harbour, found by its word"] = provider.direction(-1.0)
    provider.vectors["harbour decision"] = provider.direction(1.0, 1.0)
    await admin.add("A pier, found by its vector")
    await admin.add("harbour, found by its word")
    await admin.add("harbour decision", entry_type="decision", is_verified=True)
    await add_notes(admin, 8)
    await work()
    await admin.search("harbour", limit=3)
    settings: dict[str, Any] = {"weights": {"semantic": 0.4, "keyword": 0.6}, "rrf_k": 10}
    seen: set[str] = set()
    for mode in ("hybrid", "semantic", "keyword"):
        for boost in ([], ["type", "verified", "access"]):
            for diversity in (0.0, 0.6):
                provider.down = down
                found = await admin.search(
                    "harbour",
                    **{"mode": mode, "boost": boost, "diversity": diversity, "fusion": fusion, **settings},
                    explain=True,
                    limit=20,
                    similarity_threshold=0.0,
                )
                debug = found["debug_info"]
                assert (debug["mode"], debug["fusion"], debug["diversity"]) == (mode, fusion, diversity)
                assert (debug["weights"], debug["rrf_k"]) == (settings["weights"], 10)
                assert debug["hits"]
                for place, (hit, shown) in enumerate(zip(debug["hits"], found["results"], strict=True), 1):
                    assert (hit["rank"], hit["id"]) == (place, shown["id"])
                    assert shown["score"] == hit["score"] == pytest.approx(recompute(debug, hit))
                    for name in ("similarity", "keyword_score"):
                        assert hit[name] == shown[name]
                    seen.add("+".join(shown["sources"]))
                scores = [hit["score"] for hit in debug["hits"]]
                if not diversity:
                    assert scores == sorted(scores, reverse=True)
                if boost:
                    types = {hit["boosts"]["type"] * hit["boosts"]["verified"] for hit in debug["hits"]}
                    assert 3.0 in types
    assert seen == ({"keyword"} if down else {"semantic", "keyword", "semantic+keyword"})


async def test_explain_describes_what_the_legs_did(admin: Caller, provider: FailingProvider) -> None:
    for n in range(3):
        await admin.add(f"Note {n} about the harbour")
    found = await admin.search("harbour", explain=True)
    legs = found["debug_info"]["legs"]
    assert legs["semantic"]["strategy"] == "exact"
    assert legs["keyword"]["candidates"] == 3
    provider.down = True
    debug = (await admin.search("harbour", explain=True))["debug_info"]
    assert debug["legs"]["semantic"] is None
    assert debug["embedding_failure"] == {"attempts": 3}


ASKED: dict[str, Any] = {
    "query": "harbour",
    "mode": "keyword",
    "limit": 1,
    "group_by": "asset",
    "facets": ["tags", "metadata.port", "source"],
}
FOUND = {
    "tags": {
        "values": [{"value": "sea", "count": 3}, {"value": "a", "count": 1}],
        "other": 0,
        "missing": 0,
        "exact": True,
    },
    "metadata.port": {
        "values": [{"value": 7, "count": 1}, {"value": "Hamburg", "count": 1}],
        "other": 0,
        "missing": 1,
        "exact": True,
    },
    "source": {
        "values": [{"value": "entry", "count": 2}, {"value": "asset", "count": 1}],
        "other": 0,
        "missing": 0,
        "exact": True,
    },
}


async def fill(admin: Caller, services: Services) -> None:
    await admin.add("The harbour opens", tags=["sea"], metadata={"port": "Hamburg"})
    await admin.add("The harbour closes", tags=["sea", "a"], metadata={"port": 7})
    await admin.upload("harbour.md", b"# Harbour\n\nThe harbour is deep.", "text/markdown", tags="sea")
    await run_due(services.worker)


async def test_facets_and_groups_are_the_same_in_each_way_to_search(
    admin: Caller, reader: Caller, api_services: Services
) -> None:
    await fill(admin, api_services)
    single = await reader.search(**ASKED)
    assert single["facets"] == FOUND
    assert single["metadata"]["total"] == 3
    assert {hit["group"]["total"] for hit in single["results"]} == {1}
    batch = (await reader.post("/knowledge/search/batch", {"searches": [ASKED]})).json()
    (outcome,) = batch["results"]
    saved = (await reader.post("/knowledge/saved-searches", {"name": "N", "request": ASKED})).json()
    assert saved["request"] == ASKED
    run = (await reader.post(f"/knowledge/saved-searches/{saved['id']}/run")).json()
    for found in (outcome["result"], run):
        assert found["facets"] == FOUND
        assert found["results"] == single["results"]
    rest = await reader.search(**ASKED, cursor=single["metadata"]["next_cursor"])
    assert rest["facets"] is None
    assert rest["results"][0]["group"]["further"] == []


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


async def test_an_entry_displaced_by_nearer_ones_has_its_similarity(
    admin: Caller, provider: FailingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.knowledge.search.plan.POOL", 30)
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
    for start in range(0, 160, 40):
        entries = [{"content": "harbour " * (162 - start - n)} for n in range(40)]
        await admin.post("/knowledge/entries/bulk", {"entries": entries})
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
