"""The client's own test of a filter agrees with the service's searches."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge_client import KnowledgeClient
from knowledge_client.conditions import holds

METADATA: dict[str, dict[str, Any]] = {
    "missing": {},
    "null": {"n": None},
    "one": {"n": 1},
    "true": {"n": True},
    "half": {"n": 0.5},
    "text": {"n": "1"},
    "upper": {"n": "B"},
    "empty text": {"n": ""},
    "empty list": {"n": []},
    "list": {"n": [1, "b", None]},
    "list of null": {"n": [None]},
    "list of lists": {"n": [[1]]},
    "object": {"n": {"m": 1}},
    "objects": {"n": [{"m": 1}, {"m": "b"}, 2]},
}
N, M = ["metadata", "n"], ["metadata", "n", "m"]
TESTS: list[dict[str, Any]] = [
    *({"eq": value} for value in (1, 1.0, "1", "b", True, None, "", 2)),
    *({"ne": value} for value in (1, "b", None)),
    *({"in": values} for values in ([1, "b"], [None], [True, ""])),
    *({name: value} for name in ("gt", "gte", "lt", "lte") for value in (0.5, 1, "1", "a")),
    *({"exists": value} for value in (True, False)),
    {"gt": 0, "lt": 1},
]
CONDITIONS: list[dict[str, Any]] = [
    *({"field": field, **test} for field in (N, M) for test in TESTS),
    *({"not": {"field": N, **test}} for test in TESTS[::5]),
    {"and": [{"field": N, "gte": 1}, {"field": N, "exists": True}]},
    {"or": [{"field": N, "eq": "1"}, {"not": {"field": M, "exists": False}}]},
]


@pytest.fixture
def names(client: KnowledgeClient) -> list[str]:
    """One entry with each of the metadata, which a search for its text finds."""
    written = client.create_entries(
        {"content": f"harbour {name}", "external_id": name, "metadata": metadata} for name, metadata in METADATA.items()
    )
    assert [result.status for result in written] == ["created"] * len(METADATA)
    return list(METADATA)


def test_the_client_and_the_service_agree_on_every_condition(client: KnowledgeClient, names: list[str]) -> None:
    different = []
    for start in range(0, len(CONDITIONS), 32):
        part = CONDITIONS[start : start + 32]
        outcomes = client.search_batch(
            [{"query": "harbour", "mode": "keyword", "limit": 50, "filter": c} for c in part]
        )
        for condition, outcome in zip(part, outcomes, strict=True):
            assert outcome.result is not None, outcome
            found = {hit.external_id for hit in outcome.result.results}
            here = {name for name in names if holds(condition, METADATA[name])}
            if found != here:
                different.append((condition, found ^ here))
    assert different == []
