"""Searches grouped by asset: each asset once, with its best passages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.vocabulary import Boost, Fusion, Mode
from app.errors import InvalidInput
from app.knowledge.search.ranking import FURTHER
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants

FILLER = "Nothing of interest is written in this sentence, which is only here for its length. " * 22


def document(name: str, passages: int) -> bytes:
    """A text of about so many chunks, each with the word quokka."""
    return "\n\n".join(f"Part {n} of {name} is about the quokka. {FILLER}" for n in range(passages)).encode()


async def upload(services: Services, tenant: Tenant, **documents: int) -> dict[str, UUID]:
    made = {}
    for name, passages in documents.items():
        asset, _ = await services.assets.upload(
            tenant.id, Upload(name=f"{name}.txt", data=document(name, passages), tags=[name])
        )
        made[name] = asset.id
    return made


async def search(services: Services, tenant: Tenant, **fields: Any) -> SearchResult:
    return await services.search.search(tenant.id, SearchQuery(**{"query": "quokka", **fields}))


async def walk(services: Services, tenant: Tenant, **fields: Any) -> list[SearchResult]:
    pages = [await search(services, tenant, **fields)]
    while (cursor := pages[-1].metadata.next_cursor) is not None:
        pages.append(await search(services, tenant, cursor=cursor, **fields))
    return pages


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mode", "fusion", "boost", "diversity"),
    [
        ("keyword", "rrf", (), 0.0),
        ("hybrid", "score", ("type",), 0.0),
        ("semantic", "score", (), 0.0),
        ("hybrid", "rrf", (), 0.5),
    ],
)
async def test_each_asset_is_found_once_with_its_best_passages(
    services: Services,
    tenant: Tenant,
    run_jobs: RunJobs,
    mode: Mode,
    fusion: Fusion,
    boost: tuple[Boost, ...],
    diversity: float,
) -> None:
    await upload(services, tenant, long=9, short=2, other=1)
    await services.entries.create_many(tenant.id, [EntryDraft(content=f"A quokka, note {n}.") for n in range(3)])
    await run_jobs()
    asked = {
        "mode": mode,
        "fusion": fusion,
        "boost": boost,
        "diversity": diversity,
        "similarity_threshold": 0.0,
    }
    plain = await search(services, tenant, limit=100, **asked)
    assets: dict[UUID, list[Any]] = {}
    for hit in plain:
        assert hit.group is None
        assets.setdefault(hit.asset_id or hit.id, []).append(hit)
    assert len(assets) == 6 or mode == "semantic"
    pages = await walk(services, tenant, limit=4, group_by="asset", **asked)
    assert {page.metadata.total for page in pages} == {len(assets)}
    hits = [hit for page in pages for hit in page]
    assert [hit.id for hit in hits] == [members[0].id for members in assets.values()]
    for hit, members in zip(hits, assets.values(), strict=True):
        assert hit.group is not None
        assert hit.group.total == len(members)
        further = members[1 : 1 + FURTHER]
        assert [p.id for p in hit.group.further] == [m.id for m in further]
        assert [p.chunk_index for p in hit.group.further] == [m.chunk_index for m in further]
        assert [p.score for p in hit.group.further] == pytest.approx([m.score for m in further])
        assert [p.title for p in hit.group.further] == [m.title for m in further]
        assert all(p.snippet for p in hit.group.further)
        assert all(hit.score >= p.score for p in hit.group.further) or diversity
    assert pages[0].metadata.strong_match == plain.metadata.strong_match or diversity


async def test_a_page_is_filled_although_one_asset_has_most_of_the_best_passages(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    await upload(services, tenant, long=60)
    await services.entries.create_many(
        tenant.id,
        [EntryDraft(content=f"Note {n} mentions a quokka once among many other words. {FILLER}") for n in range(4)],
    )
    await run_jobs()
    # Of 30 candidates, all would be of one asset.
    page = await search(services, tenant, mode="keyword", fusion="rrf", limit=3, group_by="asset")
    assert len(page) == 3
    assert page.metadata.total == 5
    assert page.metadata.degraded == []
    assert max(hit.group.total for hit in page if hit.group is not None) >= 60


async def test_pages_of_groups_are_pinned(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    await upload(services, tenant, a=3, b=3, c=3, d=3)
    await run_jobs()
    first = await search(services, tenant, mode="keyword", limit=2, group_by="asset")
    seen = [hit.asset_id for hit in first]
    await upload(services, tenant, e=3)
    await run_jobs()
    await services.assets.delete(tenant.id, seen[0])  # type: ignore[arg-type]
    # The continuation may omit group_by, as it may omit filters.
    rest = await search(services, tenant, mode="keyword", limit=2, cursor=first.metadata.next_cursor)
    assert len(rest) == 2
    assert len({*seen, *(hit.asset_id for hit in rest)}) == 4
    assert all(hit.group is not None and hit.group.total == 3 and len(hit.group.further) == 2 for hit in rest)
    plain = await search(services, tenant, mode="keyword", limit=2)
    with pytest.raises(InvalidInput, match="cursor: belongs to a search that is not grouped"):
        await search(services, tenant, mode="keyword", cursor=plain.metadata.next_cursor, group_by="asset")


async def test_a_group_by_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidInput, match="group_by: must be asset"):
        SearchQuery(query="x", group_by="tags")  # type: ignore[arg-type]


async def test_why_not_explains_a_passage_behind_others_of_its_asset(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    await upload(services, tenant, long=8)
    await run_jobs()
    plain = await search(services, tenant, mode="keyword")
    query = SearchQuery(query="quokka", mode="keyword", group_by="asset")
    grouped = await services.search.search(tenant.id, query)
    (hit,) = grouped
    assert hit.group is not None
    for place, passage in enumerate(plain.results[: 1 + FURTHER], 1):
        verdict = await services.search.why_not(tenant.id, passage.id, query)
        assert (verdict.in_results, verdict.rank, verdict.reasons) == (True, 1, []), place
    verdict = await services.search.why_not(tenant.id, plain[6].id, query)
    assert (verdict.in_results, verdict.rank) == (False, 1)
    assert verdict.reasons[0].detail == f"passage 7 of {hit.group.total} of its asset; a hit has the best 4"


async def test_the_receipt_has_the_passages_and_feedback_accepts_them(
    services: Services, tenant: Tenant, run_jobs: RunJobs, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    await upload(services, tenant, long=6)
    await run_jobs()
    found = await services.search.search(
        tenant.id, SearchQuery(query="quokka", group_by="asset", facets=["tags"]), subject="anna"
    )
    kept = (await services.administration.receipt(tenant.id, found.metadata.search_id)).receipt
    assert kept.options["group_by"] == "asset"
    assert kept.options["facets"] == ["tags"]
    total = found[0].group.total if found[0].group else 0
    assert [entry.passages for entry in kept.ranking] == [total, 0, 0, 0]
    await services.feedback.give(tenant.id, "anna", found.metadata.search_id, kept.ranking[2].id, True)
