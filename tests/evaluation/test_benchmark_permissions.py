"""The benchmark of permissions with a few thousand entries: callers find all that they may read, and nothing else."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from pydantic import SecretStr

from app.composition.database import DatabaseAddresses
from app.composition.services import Services, build_services
from app.knowledge.search.plan import SearchDefaults
from app.settings import Settings
from app.settings.groups import DatabaseSettings
from benchmarks.contender import Question
from benchmarks.corpus.made_up import make_texts
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import Stock
from benchmarks.measures.words import read_words
from benchmarks.permissions.callers import FEWEST, Caller, list_callers
from benchmarks.permissions.completeness import Completeness, measure_completeness
from benchmarks.permissions.report import LEAST_RECALL, MOST_RATIO, Figures
from benchmarks.permissions.tenants import DEPARTMENTS, Scene, build, department, numbers_of, readers_of
from benchmarks.permissions.timing import Paired, time_in_turn
from benchmarks.texts import Library, make_queries
from tests.evaluation.samples import hide_progress
from tests.fixtures.database.cluster import MODEL, TestDatabase

ENTRIES, ORIGINALS, EXACT, QUESTIONS = 2_000, 500, 100, 30


@dataclass(frozen=True, slots=True)
class Sample:
    """The scene, the services that search in it, and what is asked."""

    scene: Scene
    services: Services
    callers: list[Caller]
    questions: list[Question]


@pytest.fixture
async def sample(services: Services, fresh_database: TestDatabase) -> Sample:
    """The benchmark's tenants, of which a search compares at most a hundred passages exactly."""
    vectors = np.random.default_rng(1).standard_normal((ORIGINALS, MODEL.dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stock = Stock(Library(make_texts(ORIGINALS)), vectors)
    scene = Scene(
        Settings(database=DatabaseSettings(url=SecretStr(fresh_database.service_dsn))),
        DatabaseAddresses(fresh_database.service_dsn, fresh_database.admin_dsn),
        services,
        stock,
        Population(0, ENTRIES),
        Population(1, ENTRIES),
        Population(2, len(numbers_of(1, ENTRIES))),
    )
    await build(scene, hide_progress, exact_limit=EXACT)
    chance = np.random.default_rng(2)
    questions = []
    for text in itertools.islice(make_queries(stock.originals, 0), QUESTIONS):
        vector = vectors[chance.integers(ORIGINALS)] + 0.1 * chance.standard_normal(MODEL.dimensions)
        questions.append(Question(text, (vector / np.linalg.norm(vector)).astype(np.float32)))
    bounded = await build_services(services.database, services.provider, defaults=SearchDefaults(exact_limit=EXACT))
    return Sample(scene, bounded, list_callers(scene), questions)


@pytest.mark.slow
async def test_callers_find_all_that_they_may_read(sample: Sample) -> None:
    scene = sample.scene
    words = await read_words(sample.services, scene.plain.tenant_id, [q.text for q in sample.questions])
    figures = Figures(ENTRIES)
    for caller in sample.callers:
        figures.completeness[caller.name] = await measure_completeness(
            sample.services, caller, sample.questions, scene.vectors(), words
        )
    assert figures.faults() == []
    assert {c.questions for c in figures.completeness.values()} == {QUESTIONS}
    few, small = (figures.completeness[sample.callers[place].name] for place in (1, -1))
    assert few.exact == few.complete == QUESTIONS
    assert few == small  # the same entries, alone in a tenant
    assert [c.exact for name, c in figures.completeness.items() if name.startswith(("no", "10", "50"))] == [0] * 4
    assert all(c.nearest and c.best and c.word_recall > 0.9 for c in figures.completeness.values())


def test_each_department_has_one_entry_of_a_hundred() -> None:
    found = [department(number) for number in range(3 * DEPARTMENTS)]
    assert all(sorted(found[n : n + DEPARTMENTS]) == list(range(DEPARTMENTS)) for n in (0, 100, 200))
    assert found[:DEPARTMENTS] != found[DEPARTMENTS : 2 * DEPARTMENTS]
    first, last = found.index(3), found.index(99)
    assert (readers_of(first), readers_of(last)) == (["group:3", "group:half", "group:tenth"], ["group:99"])
    assert numbers_of(10, 200).tolist() == [n for n in range(200) if found[n] < 10]


async def test_ways_are_timed_in_turn() -> None:
    asked: list[str] = []

    async def first(_: Question) -> None:
        asked.append("first")

    async def second(_: Question) -> None:
        asked.append("second")

    found = await time_in_turn([("a", first), ("b", second)], [Question("one"), Question("two")], 2)
    assert asked[:8] == ["second", "first", "first", "second", "first", "second", "second", "first"]
    assert len(asked) == 12
    assert [one.name for one in found] == ["a", "b"]
    assert (found[0].of_p50, found[0].of_pairs) == (1.0, 1.0)


def test_bounds_that_are_not_kept_are_faults() -> None:
    figures = Figures(100, {"good": Completeness(10, nearest=100, found=100)})
    figures.in_process = [Paired("first", 1.0, 1.0, 1.0, 1.0), Paired(FEWEST, 1.2, 1.2, MOST_RATIO, 1.2)]
    assert figures.faults() == []
    figures.completeness["blind"] = Completeness(10, nearest=1_000, found=int(1_000 * LEAST_RECALL) - 1)
    figures.completeness["leaky"] = Completeness(10, nearest=100, found=100, hidden=1)
    slow = MOST_RATIO + 0.01
    figures.over_http = [Paired("another", 1.0, 1.0, slow, 1.0), Paired(FEWEST, 1.0, 1.0, slow, 1.0)]
    assert [fault.split(":")[0] for fault in figures.faults()] == ["blind", "leaky", FEWEST]
