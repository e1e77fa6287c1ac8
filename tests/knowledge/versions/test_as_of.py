"""Searches of the past, also in random histories of a tenant that keeps versions."""

import asyncio
import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.vocabulary import Mode
from app.db.queries import vectors
from app.errors import InvalidInput
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.service import KnowledgeSearchService
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import make_search
from tests.knowledge.conftest import RunJobs
from tests.knowledge.search.history import TAGS, History, Known
from tests.knowledge.transfer.packing import export, restore
from tests.knowledge.versions.keeping import found, keep, now, texts
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants


@dataclass
class PastHistory(History):
    """After each step, the state is remembered, and searches name one of the moments remembered.

    A version is one object in all of these states: it may get its vector after a moment.
    """

    moments: list[tuple[datetime, dict[UUID, Known]]] = field(default_factory=list)
    versions: dict[UUID, list[Known]] = field(default_factory=dict)

    async def play(self, steps: int) -> None:
        await self.services.tenants.change_settings(self.tenant.id, SettingsPatch(keep_versions_days=1))
        self.remember()
        actions = [
            *(self.write, self.write_many, self.rewrite, self.rewrite, self.retag, self.delete, self.expire),
            *(self.supersede, self.embed, self.embed),
        ]
        for _ in range(steps):
            await self.random.choice(actions)()
            self.remember()
            self.provider.down = self.random.random() < 0.2
            await self.search_past()
        self.provider.down = False
        await self.search()

    async def retag(self) -> None:
        if self.entries:
            known = self._pick()
            known.fields = {**known.fields, "tags": self.random.sample(TAGS, self.random.randint(0, 2))}
            await self._change(known, EntryDraft(tags=known.fields["tags"]))

    async def expire(self) -> None:
        """As in any history, but not twice: the model does not have the time of an expiry."""
        present = self.entries
        self.entries = {known.id: known for known in present.values() if not known.expired}
        await super().expire()
        self.entries = present

    def remember(self) -> None:
        state: dict[UUID, Known] = {}
        for entry_id, versions in self.versions.items():
            live = self.entries.get(entry_id)
            if live is None or _differ(live, versions[-1]):
                self._end(versions)
        for known in self.entries.values():
            versions = self.versions.setdefault(known.id, [])
            if not versions or _differ(known, versions[-1]):
                versions.append(replace(known, words=set(known.words)))
            versions[-1].vector = known.vector
            state[known.id] = versions[-1]
        self.moments.append((datetime.now(UTC), state))

    async def search_past(self) -> None:
        present = self.entries
        self.as_of, self.entries = self.random.choice(self.moments)
        await self.search()
        self.as_of, self.entries = None, present

    def _end(self, versions: list[Known]) -> None:
        """With the vectors of a version, earlier ones with the same text have theirs."""
        for known in versions:
            if known.future_vector is versions[-1].future_vector:
                known.vector = versions[-1].vector

    def _check_order(self, result: SearchResult) -> None:
        if self.as_of is None:
            super()._check_order(result)
        for hit in result:
            if self.as_of is not None:
                assert hit.validity is not None
                assert hit.validity.valid_from <= self.as_of
                assert hit.validity.valid_until is None or hit.validity.valid_until > self.as_of


def _differ(known: Known, other: Known) -> bool:
    """Whether these are two versions, vectors apart."""
    facts = ("words", "fields", "expired", "superseded", "successor")
    return known.future_vector is not other.future_vector or any(
        getattr(known, name) != getattr(other, name) for name in facts
    )


async def test_the_text_at_a_change_is_the_new_one(services: Services, keeper: Tenant) -> None:
    (entry_id,) = await write(services, keeper, "old harbour")
    await services.entries.change(keeper.id, entry_id, EntryDraft(content="new harbour"))
    changed = (await services.entries.get(keeper.id, entry_id)).updated_at
    assert await found(services, keeper, changed) == ["new harbour"]
    assert await found(services, keeper, changed - timedelta(microseconds=1)) == ["old harbour"]


async def test_expiry_is_that_of_the_time(services: Services, keeper: Tenant) -> None:
    await write(services, keeper, "brief harbour", expires_at=now() + timedelta(seconds=2))
    before = now()
    await asyncio.sleep(2.1)
    assert await found(services, keeper, None) == []
    assert await found(services, keeper, before) == ["brief harbour"]
    assert await found(services, keeper, now()) == []


async def test_links_cut_by_a_deletion_are_kept(services: Services, keeper: Tenant) -> None:
    old, new = await write(services, keeper, "old harbour", "new harbour")
    await services.entries.change(keeper.id, old, EntryDraft(superseded_by_id=new))
    superseded = now()
    await services.entries.delete(keeper.id, new)
    assert await found(services, keeper, None) == ["old harbour"]
    assert await found(services, keeper, superseded) == ["new harbour"]
    assert await found(services, keeper, superseded, include_superseded=True) == ["new harbour", "old harbour"]
    assert (await services.versions.list_versions(keeper.id, old)).items[0].superseded_by_id == new


async def test_bulk_writes_keep_versions(services: Services, keeper: Tenant) -> None:
    drafts = [EntryDraft(content=f"harbour {n}", external_id=str(n)) for n in range(20)]
    await services.entries.create_many(keeper.id, drafts)
    before = now()
    drafts = [EntryDraft(content=f"harbour {n} again", external_id=str(n)) for n in range(20)]
    await services.entries.create_many(keeper.id, drafts)
    assert await found(services, keeper, before, limit=50) == sorted(f"harbour {n}" for n in range(20))
    assert await found(services, keeper, now(), limit=50) == sorted(f"harbour {n} again" for n in range(20))


async def test_a_replaced_and_a_deleted_asset_are_found_as_they_were(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    for mode in ("keyword", "hybrid"):
        asset, _ = await services.assets.upload(keeper.id, Upload(f"{mode}.md", b"the old harbour", external_id=mode))
        await run_jobs()
        old = now()
        await services.assets.upload(keeper.id, Upload(f"{mode}.md", b"the new harbour", external_id=mode))
        await run_jobs()
        new = now()
        await services.assets.delete(keeper.id, asset.id)
        for moment, text in ((old, "the old harbour"), (new, "the new harbour")):
            query = SearchQuery(
                query="harbour", mode=mode, as_of=moment, source="asset", asset_id=[asset.id], group_by="asset"
            )
            (hit,) = await services.search.search(keeper.id, query)
            assert (hit.content, hit.asset_id) == (text, asset.id)
        assert await found(services, keeper, None) == []


async def test_of_assets_with_the_same_bytes_one_is_found_then(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    for name in ("first", "second"):
        await services.assets.upload(keeper.id, Upload(f"{name}.md", b"the same harbour", external_id=name))
        await run_jobs()
    both = now()
    page = await services.assets.list_assets(keeper.id)
    for asset in page.items:
        await services.assets.delete(keeper.id, asset.id)
        assert await found(services, keeper, both) == ["the same harbour"]


async def test_pages_of_a_search_stay_in_the_past(services: Services, keeper: Tenant) -> None:
    entries = await write(services, keeper, *(f"harbour {n}" for n in range(6)))
    before = now()
    for entry_id in entries[:3]:
        await services.entries.change(keeper.id, entry_id, EntryDraft(content=f"mountain {entry_id}"))
    for entry_id in entries[3:5]:
        await services.entries.delete(keeper.id, entry_id)
    query = SearchQuery(query="harbour", mode="keyword", limit=4, as_of=before)
    first = await services.search.search(keeper.id, query)
    rest = SearchQuery(query="harbour", cursor=first.metadata.next_cursor)
    second = await services.search.search(keeper.id, rest)
    assert sorted(hit.content for hit in (*first, *second)) == [f"harbour {n}" for n in range(6)]
    assert all(hit.validity is not None for hit in second)
    with pytest.raises(InvalidInput, match="another search"):
        await services.search.search(
            keeper.id, SearchQuery(query="harbour", cursor=first.metadata.next_cursor, as_of=now())
        )


async def test_a_cursor_with_filters_needs_as_of_too(services: Services, keeper: Tenant) -> None:
    await write(services, keeper, *(f"harbour {n}" for n in range(3)))
    query = SearchQuery(query="harbour", mode="keyword", limit=2, as_of=now(), include_superseded=True)
    first = await services.search.search(keeper.id, query)
    later = replace(query, cursor=first.metadata.next_cursor)
    for partial in (replace(later, as_of=None), replace(later, include_superseded=False)):
        with pytest.raises(InvalidInput, match="another search"):
            await services.search.search(keeper.id, partial)
    for accepted in (later, replace(later, as_of=None, include_superseded=False)):
        (hit,) = await services.search.search(keeper.id, accepted)
        assert hit.validity is not None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"as_of": now() + timedelta(days=1)}, "as_of"),
        ({"as_of": now() - timedelta(days=400)}, "as_of"),
        ({"as_of": datetime(2026, 1, 1)}, "as_of"),  # noqa: DTZ001
        ({"as_of": now() - timedelta(days=1), "facets": ["tags"]}, "facets"),
    ],
    ids=["future", "long ago", "without a zone", "facets"],
)
async def test_a_time_that_cannot_be_answered_is_refused(
    services: Services, keeper: Tenant, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await services.search.search(keeper.id, SearchQuery(query="harbour", **values))
    assert [error.field for error in refused.value.errors] == [field]


VERSIONS = 60
FOUND: dict[str, tuple[dict[str, Any], set[int]]] = {
    "a rare tag": ({"tags": ["rare"]}, {7, 11, 37}),
    "two rare tags": ({"tags": ["rare", "first"], "tags_match": "all"}, {11}),
    "rare metadata": ({"metadata": {"shelf": 7}}, {7}),
    "a rare condition": ({"filter": {"field": "metadata.shelf", "eq": 7}}, {7}),
    "no such tag": ({"tags": ["nowhere"]}, set()),
}
"""Filters that indexes of former versions answer, and the numbers of the versions that pass."""
BOUNDED: dict[str, dict[str, Any]] = {
    "all": {},
    "a frequent tag": {"tags": ["common"]},
    "no confidence": {"min_confidence": 0.9},
    "no scope": {"scope": "project"},
    "a frequent tag and no scope": {"tags": ["common"], "scope": "project"},
}


@pytest.fixture
async def past(services: Services, keeper: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs) -> datetime:
    """A time of which all versions are former ones; the lower the number of one, the nearer it is to the query."""
    failing_provider.default = failing_provider.direction(1)
    for n in range(VERSIONS):
        failing_provider.vectors[f"harbour quay number {n}"] = failing_provider.direction(1, n / 10)
    drafts = [
        EntryDraft(
            content=f"harbour quay number {n}",
            external_id=str(n),
            tags=["rare", "first"] if n == 11 else ["rare"] if n % 30 == 7 else ["common"],
            confidence=0.5,
            metadata={"shelf": n},
        )
        for n in range(VERSIONS)
    ]
    await services.entries.create_many(keeper.id, drafts)
    await run_jobs()
    moment = now()
    await services.entries.create_many(
        keeper.id, [EntryDraft(content=f"mountain {n}", external_id=str(n)) for n in range(VERSIONS)]
    )
    await run_jobs()
    return moment


async def ask(
    search: KnowledgeSearchService, tenant: Tenant, mode: Mode, as_of: datetime, values: dict[str, Any]
) -> SearchResult:
    query = SearchQuery(query="harbour quay", mode=mode, as_of=as_of, similarity_threshold=0, limit=50, **values)
    return await search.search(tenant.id, query)


@pytest.fixture
def bounded(services: Services, monkeypatch: pytest.MonkeyPatch) -> KnowledgeSearchService:
    """A search that looks at 5 versions in the semantic leg, and at about as many in the keyword leg."""
    monkeypatch.setattr(vectors, "MOST_CHECKED", 5)
    return make_search(services, defaults=SearchDefaults(keyword_budget=1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
@pytest.mark.parametrize("name", FOUND)
async def test_a_filter_with_an_index_is_answered_in_full(
    services: Services, keeper: Tenant, past: datetime, bounded: KnowledgeSearchService, mode: Mode, name: str
) -> None:
    values, expected = FOUND[name]
    found = await ask(bounded, keeper, mode, past, values)
    whole = await ask(services.search, keeper, mode, past, values)
    assert {hit.content for hit in found} == {f"harbour quay number {n}" for n in expected}
    assert found.metadata.exact
    assert [hit.id for hit in found] == [hit.id for hit in whole]
    # Of frequent words, a smaller budget counts fewer entries.
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in whole], rel=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
@pytest.mark.parametrize("name", BOUNDED)
async def test_a_search_that_did_not_look_at_all_is_not_exact(
    keeper: Tenant, past: datetime, bounded: KnowledgeSearchService, mode: Mode, name: str
) -> None:
    found = await ask(bounded, keeper, mode, past, BOUNDED[name])
    assert not found.metadata.exact
    passing = VERSIONS if name == "all" else VERSIONS - 3 if name == "a frequent tag" else 0
    assert bool(found.results) == bool(passing)
    assert found.metadata.estimated_matches <= passing


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BOUNDED)
async def test_the_same_search_is_exact_within_the_bounds(
    services: Services, keeper: Tenant, past: datetime, name: str
) -> None:
    for mode in ("semantic", "keyword"):
        found = await ask(services.search, keeper, mode, past, BOUNDED[name])
        assert found.metadata.exact
        passing = VERSIONS if name == "all" else VERSIONS - 3 if name == "a frequent tag" else 0
        assert len(found.results) == min(passing, 50)


async def test_the_nearest_of_the_checked_versions_are_exact(
    services: Services, keeper: Tenant, past: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All vectors are compared, and the nearest versions pass: no other can be nearer."""
    monkeypatch.setattr(vectors, "MOST_CHECKED", 40)
    monkeypatch.setattr("app.knowledge.search.plan.POOL", 30)
    query = SearchQuery(query="harbour quay", mode="semantic", as_of=past, similarity_threshold=0, limit=5)
    whole = await ask(services.search, keeper, "semantic", past, {})
    found = await services.search.search(keeper.id, query)
    assert found.metadata.exact
    assert [hit.id for hit in found] == [hit.id for hit in whole][:5]
    assert [hit.content for hit in found] == [f"harbour quay number {n}" for n in range(5)]
    monkeypatch.setattr(vectors, "MOST_COMPARED", VERSIONS - 1)
    assert not (await services.search.search(keeper.id, query)).metadata.exact


@pytest.mark.parametrize("seed", range(1))
async def test_searches_of_the_past_find_what_was_valid(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await PastHistory(services, tenant, failing_provider, random.Random(seed)).play(25)  # noqa: S311


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
async def test_searches_of_the_past_find_what_was_valid_in_long_histories(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await PastHistory(services, tenant, failing_provider, random.Random(seed)).play(80)  # noqa: S311


async def test_imported_entries_were_not_here_before(services: Services, keeper: Tenant, other_tenant: Tenant) -> None:
    """Although the times of their changes are older."""
    await write(services, keeper, "the harbour")
    lines = await export(services, keeper)
    await keep(services, other_tenant, 30)
    before = now()
    assert (await restore(services, other_tenant, lines)).failed == 0
    imported = now()
    (entry,) = (await services.entries.list_entries(other_tenant.id)).items
    assert entry.updated_at < before
    assert await found(services, other_tenant, before) == []
    assert await found(services, other_tenant, imported) == ["the harbour"]
    assert await texts(services, other_tenant, entry.id) == []

    await services.entries.change(other_tenant.id, entry.id, EntryDraft(content="the new harbour"))
    changed = now()
    await restore(services, other_tenant, lines)
    moments = (before, imported, changed, now())
    assert [await found(services, other_tenant, moment) for moment in moments] == [
        [],
        ["the harbour"],
        ["the new harbour"],
        ["the harbour"],
    ]
