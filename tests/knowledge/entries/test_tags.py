"""The list of tags: counts of visible entries, prefixes, pages."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.vocabulary import TagSort
from app.errors import InvalidInput
from tests.knowledge.conftest import RunJobs

PAST = datetime.now(UTC) - timedelta(days=1)


async def count_tags(services: Services, tenant: Tenant, prefix: str = "") -> dict[str, int]:
    page = await services.reading.list_tags(tenant.id, limit=200, prefix=prefix)
    return {item.tag: item.count for item in page.items}


async def test_a_count_is_the_number_of_entries_that_a_search_with_the_tag_finds(
    services: Services, tenant: Tenant, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    chance = random.Random(3)  # noqa: S311
    tags = ["alpha", "Beta", "beta", "gamma ray", "über", "日本"]
    for owner in (tenant, other_tenant):
        await services.entries.create_many(
            owner.id,
            [
                EntryDraft(
                    content=f"quokka {n}",
                    tags=chance.sample(tags, chance.randint(0, 3)),
                    expires_at=PAST if chance.random() < 0.3 else None,
                )
                for n in range(60)
            ],
        )
    written = (await services.entries.list_entries(tenant.id, limit=200)).items
    for old, new in zip(written[:10], written[10:20], strict=True):
        await services.entries.change(tenant.id, old.id, EntryDraft(superseded_by_id=new.id))
    # The same bytes three times: of chunks that repeat each other, a search finds one.
    for name, given in (("a", ["alpha"]), ("b", ["alpha", "only b"]), ("c", ["only b", "beta"])):
        await services.assets.upload(
            tenant.id, Upload(name=f"{name}.txt", data=b"quokka in a file", external_id=name, tags=given)
        )
    await run_jobs()
    counts = await count_tags(services, tenant)
    assert list(counts) == sorted(counts)
    assert set(counts) == {*tags, "only b"}
    for tag, count in counts.items():
        query = SearchQuery(query="quokka", tags=[tag], mode="keyword", limit=100)
        found = await services.search.search(tenant.id, query)
        assert count == found.metadata.total, tag


async def test_a_tag_of_hidden_entries_only_is_not_listed(services: Services, tenant: Tenant) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="gone", tags=["gone", "both"], expires_at=PAST))
    kept, _ = await services.entries.create(tenant.id, EntryDraft(content="here", tags=["both"]))
    assert await count_tags(services, tenant) == {"both": 1}
    await services.entries.delete(tenant.id, kept.id)
    assert await count_tags(services, tenant) == {}


async def test_tags_are_listed_by_prefix_and_in_each_order(services: Services, tenant: Tenant) -> None:
    names = ["a", "ab", "abc", "b", "B", "ab%", "ab_", "ab\U0010ffff", "ä"]
    for n, name in enumerate(names):
        await services.entries.create_many(
            tenant.id, [EntryDraft(content=f"{name} {m}", tags=[name]) for m in range(1 + n % 3)]
        )
    counts = await count_tags(services, tenant)
    assert counts == {name: 1 + n % 3 for n, name in enumerate(names)}
    for prefix in ("", "a", "ab", "abc", "ab%", "ab_", "ä", "x", "B", "ab\U0010ffff"):
        expected = sorted(name for name in names if name.startswith(prefix))
        assert list(await count_tags(services, tenant, prefix=prefix)) == expected
    orders: dict[TagSort, list[str]] = {
        "tag": sorted(names),
        "-tag": sorted(names, reverse=True),
        "count": sorted(names, key=lambda tag: (counts[tag], tag)),
        "-count": sorted(names, key=lambda tag: (-counts[tag], tag)),
    }
    for sort, expected in orders.items():
        seen: list[str] = []
        cursor = None
        while True:
            page = await services.reading.list_tags(tenant.id, limit=2, cursor=cursor, sort=sort)
            seen += [item.tag for item in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert seen == expected


async def test_a_list_of_tags_refuses_what_it_cannot_answer(services: Services, tenant: Tenant) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="x", tags=["a", "b"]))
    cursor = (await services.reading.list_tags(tenant.id, limit=1)).next_cursor
    assert cursor is not None
    for name, value in (("prefix", "x" * 101), ("prefix", "\x00"), ("sort", "name"), ("limit", 0)):
        wrong: dict[str, Any] = {name: value}
        with pytest.raises(InvalidInput, match=name):
            await services.reading.list_tags(tenant.id, **wrong)
    for bad in ("", "x", "AAAA", cursor[:-6]):
        with pytest.raises(InvalidInput, match="cursor: must be the next_cursor"):
            await services.reading.list_tags(tenant.id, cursor=bad)
    with pytest.raises(InvalidInput, match="another order"):
        await services.reading.list_tags(tenant.id, cursor=cursor, sort="-count")
