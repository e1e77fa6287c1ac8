"""Assets with the same bytes: each is found by its own filters, and a text is one hit."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import AssetPatch, Upload
from app.contract.search import SearchQuery
from app.knowledge.entries.entry import embedding_text
from tests.fixtures.database.cluster import MODEL
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.ingestion.reading import chunks_of

pytestmark = pytest.mark.own_tenants

TEXT = b"# Pier\n\nBoats lie at the pier."
MODES = ("hybrid", "semantic", "keyword")


async def find(services: Services, tenant: Tenant, **wanted: Any) -> list[UUID | None]:
    """The assets of the hits of a search for all that these tests store."""
    chunks = (await services.entries.list_entries(tenant.id, entry_type="chunk", limit=200)).items
    texts = sorted({embedding_text(chunk.title, chunk.content) for chunk in chunks})
    vectors = await FailingProvider(MODEL).embed_documents(texts) if texts else []
    query = SearchQuery(
        **{"query": "boats at the pier", "limit": 50, "similarity_threshold": 0.0, **wanted},
        query_embedding=[float(sum(column)) for column in zip(*vectors, strict=True)] if vectors else None,
    )
    return [hit.asset_id for hit in (await services.search.search(tenant.id, query)).results]


async def upload(services: Services, tenant: Tenant, name: str, data: bytes = TEXT, **given: Any) -> UUID:
    asset, _ = await services.assets.upload(tenant.id, Upload(f"{name}.md", data, external_id=name, **given))
    return asset.id


@pytest.mark.parametrize("mode", MODES)
async def test_a_text_of_two_assets_is_one_hit(
    mode: str, services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    first = await upload(services, tenant, "a", tags=["one"])
    await run_jobs()
    second = await upload(services, tenant, "b", tags=["two"], roles=["dev"], metadata={"k": "b"})
    assert (await services.assets.get(tenant.id, second)).duplicate_of == first
    assert (await services.assets.get(tenant.id, first)).duplicate_of is None
    await run_jobs()
    assert await find(services, tenant, mode=mode) == [first]
    for admits in (
        {"tags": ["two"]},
        {"asset_id": [second]},
        {"metadata": {"k": "b"}},
    ):
        assert await find(services, tenant, mode=mode, **admits) == [second]
    assert await find(services, tenant, mode=mode, tags=["one", "two"]) == [first]
    query = SearchQuery(query="boats", mode="keyword")
    result = await services.search.search(tenant.id, query)
    assert (result.metadata.total, result.metadata.exact) == (1, True)
    (chunk,) = await chunks_of(services, tenant, await services.assets.get(tenant.id, second))
    why = await services.search.why_not(tenant.id, chunk.id, query)
    assert [reason.stage for reason in why.reasons] == ["duplicate"]


async def test_deleting_the_first_asset_keeps_the_second(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    ids = [await upload(services, tenant, name) for name in "abc"]
    await run_jobs()
    for number, gone in enumerate(ids):
        found = await find(services, tenant)
        assert len(found) == 1
        assert found[0] in ids[number:]
        await services.assets.delete(tenant.id, gone)
    assert await find(services, tenant) == []


async def test_a_new_version_of_one_asset_leaves_the_other(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    first, second = [await upload(services, tenant, name) for name in "ab"]
    await run_jobs()
    # The new version begins with the same chunk as the old one.
    await upload(services, tenant, "a", TEXT + b"\n\n# Tugs\n\n" + b"Tugs pull boats to the pier. " * 80)
    await run_jobs()
    assert (await services.assets.get(tenant.id, second)).duplicate_of is None
    assert (await find(services, tenant)).count(second) == 1
    assert (await find(services, tenant)).count(first) >= 2


async def test_another_title_makes_another_text(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    first, second = [await upload(services, tenant, name) for name in "ab"]
    await run_jobs()
    await services.assets.change(tenant.id, second, AssetPatch(title="Mole"))
    await run_jobs()
    assert set(await find(services, tenant)) == {first, second}
    assert await find(services, tenant, query="mole", mode="keyword") == [second]
    await services.assets.change(tenant.id, second, AssetPatch(title=None))
    await run_jobs()
    assert len(await find(services, tenant)) == 1


async def test_assets_that_are_indexed_at_the_same_time_are_one_hit(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    await asyncio.gather(*(upload(services, tenant, name) for name in "abcd"))
    await asyncio.gather(*(services.worker.run_once() for _ in range(4)))
    await run_jobs()
    assert len(await find(services, tenant)) == 1


@pytest.mark.parametrize(
    ("seed", "changes"), [(0, 6), *(pytest.param(seed, 16, marks=pytest.mark.slow) for seed in range(6))]
)
async def test_searches_find_each_text_once_under_any_filter(
    seed: int, changes: int, services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    """Uploads, versions, changes and deletions at random; every search is compared with a model of what is stored."""
    dice = random.Random(seed)  # noqa: S311
    contents = [f"# Pier {n}\n\nBoats of kind {n} lie at the pier.".encode() for n in range(3)]
    model: dict[str, dict[str, Any]] = {}
    for _ in range(changes):
        name = dice.choice("abcdef")
        match dice.choice(["upload", "upload", "change", "delete"]):
            case "upload":
                given = {"tags": [dice.choice("xy")], "metadata": {"k": dice.choice("uv")}}
                data = dice.choice(contents)
                asset_id = await upload(services, tenant, name, data, **given)
                model[name] = {
                    "roles": ["all"],
                    **model.get(name, {}),
                    "id": asset_id,
                    "data": data,
                    **given,
                }
            case "change" if name in model:
                changed: dict[str, Any] = {
                    "tags": [dice.choice("xyz")],
                    "roles": [dice.choice(["dev", "qa"])],
                }
                await services.assets.change(tenant.id, model[name]["id"], AssetPatch(**changed))
                model[name] |= changed
            case "delete" if name in model:
                await services.assets.delete(tenant.id, model.pop(name)["id"])
        if dice.random() < 0.6:
            await run_jobs()
        else:
            continue
        tag, key, role = dice.choice("xyz"), dice.choice("uv"), dice.choice(["dev", "qa"])
        some = dice.sample(sorted(f["id"] for f in model.values()), len(model) // 2)
        searches: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
            ({}, files := list(model.values())),
            ({"tags": [tag]}, [f for f in files if tag in f["tags"]]),
            ({"metadata": {"k": key}}, [f for f in files if f["metadata"]["k"] == key]),
            ({"role": role}, [f for f in files if {role, "all"} & set(f["roles"])]),
            ({"asset_id": some or [UUID(int=1)]}, [f for f in files if f["id"] in some]),
        ]
        for wanted, admitted in searches:
            groups: dict[bytes, set[UUID]] = {}
            for file in admitted:
                groups.setdefault(file["data"], set()).add(file["id"])
            for mode in MODES:
                found = await find(services, tenant, mode=mode, **wanted)
                assert len(found) == len(groups), (mode, wanted)
                for ids in groups.values():
                    assert len(ids & set(found)) == 1, (mode, wanted)
