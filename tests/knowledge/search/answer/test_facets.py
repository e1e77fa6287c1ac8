"""Facets count the values of all matches, compared with a count of every entry."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.results import Facet
from app.contract.search import SearchQuery
from app.contract.vocabulary import Audience
from app.knowledge.search.answer import page as counting
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants

WORDS = ("quokka", "harbour", "lantern", "meadow", "granite", "velvet")
NAMES = ("tags", "entry_type", "roles", "scope", "metadata.product", "metadata.none")
PRODUCTS: tuple[Any, ...] = (
    "lamp",
    "desk",
    7,
    7.5,
    True,
    None,
    {"a": 1},
    ["lamp", "chair", "lamp", None],
    [],
    "x" * 300,
)
PAST = datetime.now(UTC) - timedelta(days=1)


@dataclass(frozen=True)
class Written:
    id: UUID
    draft: EntryDraft
    words: frozenset[str]
    cosine: float
    superseded: bool
    pending: bool

    def field(self, name: str) -> Any:
        return getattr(self.draft, name)


def values_of(entry: Written, name: str) -> set[tuple[type, Any]]:
    if not name.startswith("metadata."):
        value = entry.field(name)
    else:
        value = entry.field("metadata").get(name.removeprefix("metadata."))
    listed = value if isinstance(value, list | tuple) else [value]
    scalars = {v for v in listed if isinstance(v, str | int | float)}
    return {(bool if isinstance(v, bool) else str if isinstance(v, str) else float, v) for v in scalars}


def count_all(matches: list[Written], name: str) -> tuple[dict[Any, int], int, int]:
    counts = Counter(value for entry in matches for value in values_of(entry, name))
    shown = {value: n for value, n in counts.items() if not (value[0] is str and len(value[1]) > 200)}
    other = sum(counts.values()) - sum(shown.values())
    return shown, other, sum(not values_of(entry, name) for entry in matches)


def described(facet: Facet) -> tuple[dict[Any, int], int, int]:
    values = {
        (bool if isinstance(v.value, bool) else str if isinstance(v.value, str) else float, v.value): v.count
        for v in facet.values
    }
    assert len(values) == len(facet.values)
    assert [v.count for v in facet.values] == sorted((v.count for v in facet.values), reverse=True)
    return values, facet.other, facet.missing


AUDIENCES: tuple[list[Audience], ...] = (["all"], ["dev"], ["dev", "qa"])


async def write_entries(
    services: Services, tenant: Tenant, provider: FailingProvider, run_jobs: RunJobs, chance: random.Random
) -> list[Written]:
    drafts, cosines = [], []
    for n in range(120):
        content = " ".join([*chance.sample(WORDS, chance.randint(1, 3)), f"n{n}x"])
        cosine = chance.randint(0, 9) / 10 + 0.05
        provider.vectors[content] = provider.direction(cosine, (1 - cosine**2) ** 0.5)
        cosines.append(cosine)
        product = chance.choice(PRODUCTS)
        drafts.append(
            EntryDraft(
                content=content,
                language="english",
                tags=chance.sample(["red", "green", "blue", "grey"], chance.randint(0, 3)),
                entry_type=chance.choice(["fact", "lesson", "decision"]),
                roles=chance.choice(AUDIENCES),
                confidence=chance.choice([0.3, 0.9]),
                scope=chance.choice(["global", "project"]),
                metadata={"product": product} if product != [] else {},
                expires_at=PAST if chance.random() < 0.1 else None,
            )
        )
    made = [r.id for r in await services.entries.create_many(tenant.id, drafts[:100])]
    await run_jobs()
    superseded = set(chance.sample(range(50), 8))
    for n in superseded:
        old, new = made[n], made[n + 50]
        assert old is not None
        await services.entries.change(tenant.id, old, EntryDraft(superseded_by_id=new))
    # The others have no vector yet.
    made += [r.id for r in await services.entries.create_many(tenant.id, drafts[100:])]
    return [
        Written(i, d, frozenset(d.content.split()), c, n in superseded, n >= 100)  # type: ignore[union-attr,arg-type]
        for n, (i, d, c) in enumerate(zip(made, drafts, cosines, strict=True))
    ]


FILTERS: tuple[tuple[dict[str, Any], Callable[[Written], bool]], ...] = (
    ({}, lambda e: True),
    ({"tags": ["red", "blue"]}, lambda e: bool({"red", "blue"} & set(e.field("tags")))),
    ({"tags": ["red", "blue"], "tags_match": "all"}, lambda e: {"red", "blue"} <= set(e.field("tags"))),
    ({"entry_type": "fact"}, lambda e: e.field("entry_type") == "fact"),
    ({"role": "qa"}, lambda e: bool({"qa", "all"} & set(e.field("roles")))),
    ({"min_confidence": 0.5}, lambda e: e.field("confidence") >= 0.5),
    ({"metadata": {"product": "lamp"}}, lambda e: e.field("metadata").get("product") == "lamp"),
    ({"tags": ["none"]}, lambda e: False),
)


def find_matches(
    entries: list[Written], words: set[str], mode: str, threshold: float, passes: Callable[[Written], bool], down: bool
) -> list[Written]:
    by_words = down or mode != "semantic"

    def is_match(e: Written) -> bool:
        if e.field("expires_at") is not None or not passes(e):
            return False
        meets = not down and mode != "keyword" and not e.pending and e.cosine >= threshold
        return meets or ((by_words or e.pending) and bool(e.words & words))

    return [e for e in entries if is_match(e)]


async def count_facets(
    services: Services, tenant: Tenant, query: str, **fields: Any
) -> tuple[Mapping[str, Facet], Any]:
    asked = SearchQuery(query=query, facets=NAMES, limit=3, **fields)
    found = await services.search.search(tenant.id, asked)
    assert found.facets is not None
    assert list(found.facets) == list(NAMES)
    return found.facets, found


async def test_facets_count_every_match_under_each_filter_and_mode(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    chance = random.Random(17)  # noqa: S311
    entries = await write_entries(services, tenant, failing_provider, run_jobs, chance)
    for query in ("quokka harbour", "velvet", "nowhere"):
        failing_provider.vectors[query] = failing_provider.direction(1)
        for filters, passes in FILTERS:
            for mode in ("hybrid", "semantic", "keyword"):
                for superseded in (False, True):
                    asked = {**filters, "mode": mode, "similarity_threshold": 0.6, "include_superseded": superseded}
                    facets, found = await count_facets(services, tenant, query, **asked)
                    expected = find_matches(
                        entries,
                        set(query.split()),
                        mode,
                        0.6,
                        lambda e, passes=passes, superseded=superseded: (  # type: ignore[misc]
                            passes(e) and (superseded or not e.superseded)
                        ),
                        down=False,
                    )
                    for name, facet in facets.items():
                        assert described(facet) == count_all(expected, name), (query, asked, name)
                        assert facet.exact == found.metadata.exact
                    assert found.metadata.total <= len(expected)
    failing_provider.down = True
    for mode in ("hybrid", "semantic"):
        facets, found = await count_facets(services, tenant, "meadow quokka", mode=mode)
        assert found.metadata.fallback_mode
        expected = find_matches(entries, {"meadow", "quokka"}, mode, 0.6, lambda e: not e.superseded, down=True)
        for name, facet in facets.items():
            assert described(facet) == count_all(expected, name)
            assert facet.exact


async def test_facets_above_the_bounds_are_lower_bounds_and_say_so(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_provider.down = True
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"quokka {n}", tags=[f"t{n:02}", "all"]) for n in range(60)]
    )
    facets, _ = await count_facets(services, tenant, "quokka")
    assert facets["tags"].exact
    assert facets["tags"].values[0].value == "all"
    assert (len(facets["tags"].values), facets["tags"].other) == (50, 11)
    monkeypatch.setattr(counting, "MOST_MATCHES", 7)
    facets, _ = await count_facets(services, tenant, "quokka")
    assert not any(facet.exact for facet in facets.values())
    assert facets["tags"].values[0].count == 7
    narrow, _ = await count_facets(services, tenant, "quokka", tags=["t01", "t02"])
    assert narrow["tags"].exact
    assert {v.value: v.count for v in narrow["tags"].values} == {"all": 2, "t01": 1, "t02": 1}


async def test_repeated_chunks_count_once(services: Services, tenant: Tenant, run_jobs: RunJobs) -> None:
    for name in ("a", "b"):
        await services.assets.upload(
            tenant.id, Upload(name=f"{name}.txt", data=b"quokka in a file", external_id=name, tags=[name])
        )
    await run_jobs()
    facets, _ = await count_facets(services, tenant, "quokka", mode="keyword")
    assert {v.value: v.count for v in facets["tags"].values} == {"a": 1}
    await services.entries.create(tenant.id, EntryDraft(content="a written quokka"))
    asked = SearchQuery(query="quokka", mode="keyword", facets=["source", "asset_id"])
    found = (await services.search.search(tenant.id, asked)).facets or {}
    (source, document) = found.values()
    assert {v.value: v.count for v in source.values} == {"asset": 1, "entry": 1}
    assert ([v.count for v in document.values], document.missing) == ([1], 1)
    facets, _ = await count_facets(services, tenant, "quokka", mode="keyword", tags=["b"])
    assert {v.value: v.count for v in facets["tags"].values} == {"b": 1}


async def test_a_whole_identifier_and_a_corrected_word_are_counted_as_they_are_searched(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    contents = {"the code KNOW-004": "whole", "KNOW and 004": "part", "a granite wall": "wall"}
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=text, tags=[tag], language="english") for text, tag in contents.items()]
    )
    for query, tag in (("KNOW-004", "whole"), ("granitte", "wall")):
        facets, found = await count_facets(services, tenant, query)
        assert found.metadata.total == 1
        assert [v.value for v in facets["tags"].values] == [tag]


async def test_a_search_that_asks_for_no_facets_has_none(services: Services, tenant: Tenant) -> None:
    await services.entries.create_many(tenant.id, [EntryDraft(content=f"quokka {n}") for n in range(3)])
    found = await services.search.search(tenant.id, SearchQuery(query="quokka", mode="keyword", limit=1))
    assert found.facets is None
    asked = SearchQuery(query="quokka", mode="keyword", limit=1, facets=["tags"], cursor=found.metadata.next_cursor)
    assert (await services.search.search(tenant.id, asked)).facets is None
