"""The pages of a search: for each limit, and when paged, the same list."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.knowledge.search.plan import POOL
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.search.history import FUSIONS, MODES, WORDS
from tests.knowledge.writing import ids

pytestmark = pytest.mark.own_tenants

ENTRIES = 2 * POOL + 50
"""Each leg cuts them, and finds others than the other leg."""


async def search(services: Services, tenant: Tenant, query: str, **fields: Any) -> SearchResult:
    return await services.search.search(tenant.id, SearchQuery(query=query, **fields))


async def fill(services: Services, tenant: Tenant, provider: FailingProvider, chance: random.Random) -> list[str]:
    """Write entries of random words with random vectors; return queries that the tenant answers."""

    def make_text(words: int) -> str:
        text = " ".join(chance.choices(WORDS, k=words))
        provider.vectors[text] = provider.direction(*(chance.random() for _ in range(4)))
        return text

    drafts = [
        EntryDraft(content=make_text(8), external_id=f"{n}", tags=[("even", "odd")[n % 2]]) for n in range(ENTRIES)
    ]
    await services.entries.create_many(tenant.id, drafts)
    await services.embedder.embed_all(tenant.id)
    return [make_text(3) for _ in range(2)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
async def test_every_limit_and_every_page_show_the_same_list(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    queries = await fill(services, tenant, failing_provider, random.Random(seed))  # noqa: S311
    narrowed: list[dict[str, Any]] = [{}, {"tags": ["even"]}, {"diversity": 0.4}, {"similarity_threshold": 0.9}]
    cut = 0
    for query, mode, fusion, others in zip(
        queries * 12, *zip(*product(MODES, FUSIONS, narrowed), strict=True), strict=True
    ):
        asked = {"mode": mode, "fusion": fusion, **others}
        whole = await search(services, tenant, query, limit=100, **asked)
        for limit in (1, 10, 50):
            head = await search(services, tenant, query, limit=limit, **asked)
            assert [(h.id, h.score) for h in head] == [(h.id, h.score) for h in whole][:limit], asked
            assert (head.metadata.total, head.metadata.degraded) == (whole.metadata.total, whole.metadata.degraded)
        paged = [*ids(head)]
        while head.metadata.next_cursor is not None and len(paged) < len(whole):
            head = await search(services, tenant, query, limit=25, cursor=head.metadata.next_cursor, **asked)
            paged += ids(head)
        assert paged == ids(whole), asked
        cut += whole.metadata.degraded == ["ranking_truncated"]
    assert cut > 12
    larger = replace(services.search, defaults=replace(services.search.defaults, max_limit=100))
    for search_service, candidates in ((services.search, POOL), (larger, 300)):
        found = await search_service.search(tenant.id, SearchQuery(query=" ".join(WORDS), mode="keyword"))
        assert found.metadata.total == candidates, "three times the largest page"
