"""Each filter gives the same set in all three modes: the one that Python picks from the same entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.composition import Services, build_services
from app.knowledge.assets import Upload
from app.knowledge.entry import Entry
from app.knowledge.plan import SearchDefaults
from app.knowledge.query import SearchQuery
from app.knowledge.tenants import Tenant
from tests.knowledge.conftest import RunJobs
from tests.knowledge.provider import FailingProvider

Predicate = Callable[[Entry], bool]
CASES: list[tuple[dict[str, Any], Predicate]] = [
    ({}, lambda e: True),
    ({"role": "dev"}, lambda e: bool({"dev", "all"} & set(e.roles))),
    ({"role": "all"}, lambda e: "all" in e.roles),
    ({"tags": ["a"]}, lambda e: "a" in e.tags),
    ({"tags": ["a", "b"]}, lambda e: bool({"a", "b"} & set(e.tags))),
    ({"tags": ["a", "b"], "tags_match": "all"}, lambda e: {"a", "b"} <= set(e.tags)),
    ({"tags": ["nobody's"]}, lambda e: False),
    ({"entry_type": "lesson"}, lambda e: e.entry_type == "lesson"),
    ({"entry_type": ["fact", "chunk"]}, lambda e: e.entry_type in ("fact", "chunk")),
    ({"min_confidence": 0.5}, lambda e: e.confidence >= 0.5),
    ({"min_confidence": 1.0}, lambda e: e.confidence >= 1.0),
    ({"scope": "project"}, lambda e: e.scope == "project"),
    ({"source": "entry"}, lambda e: e.asset_id is None),
    ({"source": "asset"}, lambda e: e.asset_id is not None),
    ({"metadata": {"team": "red"}}, lambda e: e.metadata.get("team") == "red"),
    ({"metadata": {"team": "red", "deep": {"n": 1}}}, lambda e: e.metadata.get("deep") == {"n": 1}),
    (
        {"role": "qa", "tags": ["a"], "scope": "global", "min_confidence": 0.3},
        lambda e: (
            bool({"qa", "all"} & set(e.roles))
            and "a" in e.tags
            and e.scope == "global"
            and e.confidence >= 0.3
        ),
    ),
]


async def fill(services: Services, tenant: Tenant, run_jobs: RunJobs) -> list[Entry]:
    roles = (["all"], ["dev"], ["pm", "qa"], ["qa"])
    tags: tuple[list[str], ...] = ([], ["a"], ["b"], ["a", "b"], ["a", "b", "c"])
    kinds = ("fact", "lesson", "decision")
    items = [
        {
            "content": f"common entry {n}",
            "roles": roles[n % 4],
            "tags": tags[n % 5],
            "entry_type": kinds[n % 3],
            "confidence": (n % 11) / 10,
            "scope": ("global", "project")[n % 7 % 2],
            "metadata": {"team": "red", "deep": {"n": n % 2}} if n % 2 else {"team": "blue"},
            "language": "english",
        }
        for n in range(30)
    ]
    await services.entries.create_many(tenant.id, items)
    for name, marks in (("one", ["a"]), ("two", ["c"])):
        upload = Upload(f"{name}.txt", f"A common text of asset {name}.".encode(), tags=marks, roles=["dev"])
        await services.assets.upload(tenant.id, upload)
    await run_jobs()
    return list((await services.entries.list_entries(tenant.id, limit=200)).items)


@pytest.mark.parametrize("exact_limit", [10_000, 5])
async def test_filters_give_the_same_set_in_every_mode(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, exact_limit: int
) -> None:
    failing_provider.default = failing_provider.direction(1)
    entries = await fill(services, tenant, run_jobs)
    assert len(entries) == 32
    assets = (await services.assets.list_assets(tenant.id)).items
    defaults = SearchDefaults(exact_limit=exact_limit)
    small = await build_services(services.database, failing_provider, defaults=defaults)
    cases = [*CASES, ({"asset_id": [assets[0].id]}, lambda e: e.asset_id == assets[0].id)]
    for filters, predicate in cases:
        expected = {e.id for e in entries if predicate(e)}
        for mode in ("keyword", "semantic", "hybrid"):
            query = SearchQuery(query="common", mode=mode, limit=100, **filters)
            found = [hit.id for hit in await small.search.search(tenant.id, query)]
            assert len(found) == len(set(found)), (filters, mode)
            assert set(found) == expected, (filters, mode)
    await small.journal.flush()
