"""What changes the order after the fusion."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.vocabulary import Fusion, Mode
from app.db.queries.search import LegHit
from app.embeddings.provider import EmbeddingModel, resolve_model
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.legs.keyword import KeywordHits, Replacements
from app.knowledge.search.legs.semantic import SemanticHits
from app.knowledge.search.ranking import Candidate, has_strong_match, recency, reference_time, spread
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import explanation_of
from tests.knowledge.conftest import RunJobs
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def test_boosts_raise_hits_by_type_verification_and_access(services: Services, tenant: Tenant) -> None:
    (fact,) = await write(services, tenant, "harbour harbour")
    (lesson,) = await write(services, tenant, "harbour rule", entry_type="lesson", is_verified=True)
    plain = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword"))
    assert ids(plain) == [fact, lesson]
    score = {hit.id: hit.score for hit in plain}
    await services.journal.flush()
    lifted = await services.search.search(
        tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["type", "verified"])
    )
    assert ids(lifted) == [lesson, fact]
    assert lifted[0].score == pytest.approx(score[lesson] * 2.0 * 1.5)
    assert lifted[1].score == pytest.approx(score[fact])
    await services.entries.read(tenant.id, fact)
    await services.accesses.flush()
    seen = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["access"]))
    assert seen[0].score > score[seen[0].id]
    await services.tenants.change_settings(tenant.id, SettingsPatch(type_weights={"lesson": 0.1}, verified_boost=1.0))
    lowered = await services.search.search(
        tenant.id, SearchQuery(query="harbour", mode="keyword", boost=["type", "verified"])
    )
    assert ids(lowered) == [fact, lesson]


def test_recency_halves_with_each_half_life_and_never_reaches_zero() -> None:
    now = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
    ages = (-1, 0, 30, 60, 36_500)
    assert [recency(now - timedelta(days=age), now, 30.0) for age in ages] == [1.5, 1.5, 1.25, 1.125, 1.0]
    assert reference_time(None, now) == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert reference_time(now, datetime.now(UTC)) == now


@pytest.mark.parametrize("fusion", ["score", "rrf"])
async def test_the_boost_recent_prefers_the_later_change(
    services: Services, superuser_dsn: str, tenant: Tenant, fusion: Fusion
) -> None:
    texts = ("Travel limit: 90 a day. The travel limit holds for all.", "Travel limit: 120 a day.")
    old, new = await write(services, tenant, *texts)
    async with connected(superuser_dsn) as superuser:
        for entry_id, days in ((old, 180), (new, 60)):
            changed = datetime.now(UTC) - timedelta(days=days)
            await superuser.execute("update entries set updated_at = $2 where id = $1", entry_id, changed)
    query = SearchQuery("current travel limit", mode="keyword", fusion=fusion, limit=1)
    assert ids(await services.search.search(tenant.id, query)) == [old]
    query = replace(query, boost=("recent",), recent_half_life_days=60.0, explain=True)
    first = await services.search.search(tenant.id, query)
    assert ids(first) == [new]
    (told,) = explanation_of(first).hits
    assert (told.boosts or {})["recent"] == pytest.approx(1.25, abs=0.001)
    await services.journal.flush()
    following = await services.search.search(tenant.id, replace(query, cursor=first.metadata.next_cursor))
    assert ids(following) == [old]
    await services.tenants.change_settings(tenant.id, SettingsPatch(recent_half_life_days=30))
    other = await services.search.search(tenant.id, replace(query, recent_half_life_days=None))
    assert (explanation_of(other).hits[0].boosts or {})["recent"] == pytest.approx(1.125, abs=0.001)


async def test_access_boost_counts_reads_and_relevant_feedback_but_not_hits(services: Services, tenant: Tenant) -> None:
    read, judged, listed = await write(
        services, tenant, "harbour harbour harbour", "harbour harbour and", "harbour and more words"
    )
    before = [await services.entries.get(tenant.id, i) for i in (read, judged, listed)]
    for _ in range(3):
        result = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword"))
        await services.entries.read(tenant.id, read)
        await services.accesses.flush()
    search_id = result.metadata.search_id
    for entry_id, relevant in ((judged, True), (listed, False)):
        await services.feedback.give(tenant.id, "service", search_id, entry_id, relevant)
    await services.journal.flush()
    await services.accesses.flush()
    query = SearchQuery(query="harbour", mode="keyword", boost=["access"], explain=True)
    result = await services.search.search(tenant.id, query)
    factors = {hit.id: (hit.boosts or {})["access"] for hit in explanation_of(result).hits}
    assert factors == {read: pytest.approx(1 + math.log(4)), judged: pytest.approx(1 + math.log(2)), listed: 1.0}
    after = [await services.entries.get(tenant.id, i) for i in (read, judged, listed)]
    assert after == before, "neither updated_at nor the version moved"


async def test_repeated_reads_within_a_moment_count_once(services: Services, tenant: Tenant) -> None:
    (entry_id,) = await write(services, tenant, "harbour")
    for _ in range(5):
        await services.entries.read(tenant.id, entry_id)
    await services.accesses.flush()
    assert (await services.reading.entry(tenant.id, entry_id)).accesses == 1


@pytest.mark.parametrize(
    ("entry_type", "factor"),
    [
        *(("decision", 2.0), ("lesson", 2.0), ("summary", 0.5), ("temp_note", 0.3)),
        *(("fact", 1.0), ("template", 1.0), ("insight", 1.0)),
    ],
)
async def test_type_boost_has_the_factor_of_the_type(
    services: Services, tenant: Tenant, entry_type: str, factor: float
) -> None:
    await write(services, tenant, "harbour", entry_type=entry_type)
    query = SearchQuery(query="harbour", mode="keyword", fusion="rrf", boost=["type"])
    (hit,) = await services.search.search(tenant.id, query)
    assert hit.score == pytest.approx(0.3 / 61 * factor)


A, B, C = (UUID(int=n) for n in (1, 2, 3))
VECTORS = {
    A: np.array([1.0, 0.0], np.float32),
    B: np.array([1.0, 0.0], np.float32),
    C: np.array([0.0, 1.0], np.float32),
}


def ranking() -> list[Candidate]:
    now = datetime.now(UTC)
    return [Candidate(i, now, score=s) for i, s in ((A, 1.0), (B, 0.9), (C, 0.5))]


def test_diversity_of_zero_keeps_the_order() -> None:
    assert [c.entry_id for c in spread(ranking(), VECTORS, 0.0)] == [A, B, C]


def test_diversity_ranks_a_copy_of_the_best_hit_below_a_different_hit() -> None:
    # B: 0.5 * 0.9 - 0.5 * 1 = -0.05; C: 0.5 * 0.5 - 0.5 * 0 = 0.25
    assert [c.entry_id for c in spread(ranking(), VECTORS, 0.5)] == [A, C, B]


def test_diversity_does_not_change_scores_or_candidates() -> None:
    reordered = spread(ranking(), VECTORS, 1.0)
    assert sorted((c.entry_id, c.score) for c in reordered) == [(A, 1.0), (B, 0.9), (C, 0.5)]


def test_diversity_treats_an_entry_without_a_vector_as_different_from_all() -> None:
    vectors = {i: v for i, v in VECTORS.items() if i != B}
    assert [c.entry_id for c in spread(ranking(), vectors, 0.5)] == [A, B, C]


def test_diversity_of_no_hits_is_empty() -> None:
    assert spread([], {}, 0.5) == []


@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_diversity_limits_chunks_of_one_asset(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs, fusion: Any
) -> None:
    d = failing_provider.direction
    failing_provider.vectors["harbour"] = d(1)
    failing_provider.default = d(1, 0.1)
    text = "\n\n".join(
        f"# Part {n}\n\n" + f"The harbour has {word}. " * 40
        for n, word in enumerate(("berths", "cranes", "ropes", "boats", "gates", "keys"))
    )
    await services.assets.upload(tenant.id, Upload("harbour.md", text.encode()))
    await run_jobs()
    failing_provider.vectors["Another view of the harbour"] = d(0.7, -0.7)
    other, _ = await services.entries.create(tenant.id, EntryDraft(content="Another view of the harbour"))

    async def page(diversity: float) -> list[UUID]:
        query = SearchQuery(query="harbour", mode="semantic", fusion=fusion, limit=3, diversity=diversity)
        return [hit.id for hit in await services.search.search(tenant.id, query)]

    assert other.id not in await page(0)
    assert (await page(0.7))[1] == other.id
    everything = SearchQuery(query="harbour", fusion=fusion, limit=50)
    diverse = SearchQuery(query="harbour", fusion=fusion, limit=50, diversity=1)
    plain, reordered = [
        {hit.id: hit.score for hit in await services.search.search(tenant.id, query)} for query in (everything, diverse)
    ]
    assert plain == reordered, "the same hits with the same scores, in another order"


NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = 10.0
"""The BM25 score of an entry that contains the whole query."""
MINILM = resolve_model("local")
E5 = resolve_model("local", "multilingual-e5-small")


def judge(
    cosine: float | None,
    bm25: float | None,
    *,
    model: EmbeddingModel = MINILM,
    semantic: bool = True,
    keyword: bool = True,
    whole: bool = False,
) -> bool:
    """Whether one hit with these scores is a strong match when these legs ran."""
    hit = LegHit(UUID(int=1), NOW, 1.0)
    legs = Legs(
        semantic=SemanticHits(hits=[hit], matches=1, pending=0, strategy="exact", compared=True, seconds=0.0)
        if semantic
        else None,
        keyword=KeywordHits(
            hits=[hit],
            total=1,
            complete=True,
            full_match=FULL,
            entries=1000,
            whole=whole,
            replacements=Replacements(),
            seconds=0.0,
        )
        if keyword
        else None,
    )
    one = Candidate(UUID(int=1), NOW, similarity=cosine, keyword_score=bm25, keyword_rank=None if bm25 is None else 1)
    return has_strong_match(legs, [one], model)


@pytest.mark.parametrize(
    ("cosine", "bm25", "strong"),
    [
        # 0.6 * cosine + 0.4 * sqrt(bm25 / full) from 0.5 on
        (0.84, None, True),
        (0.83, None, False),
        (0.5, 2.6, True),
        (0.5, 2.4, False),
        (None, 8.2, True),
        (None, 8.0, False),
        (0.0, 0.0, False),
        (None, None, False),
    ],
)
def test_both_legs_together_decide(cosine: float | None, bm25: float | None, strong: bool) -> None:
    assert judge(cosine, bm25) is strong


def test_one_leg_needs_a_higher_score_than_both_legs() -> None:
    assert judge(None, 4.2, semantic=False)
    assert not judge(None, 4.0, semantic=False)
    assert judge(0.41, None, keyword=False)
    assert not judge(0.39, None, keyword=False)


def test_a_completely_matched_identifier_is_a_strong_match() -> None:
    assert judge(None, 0.1, whole=True)
    assert not judge(None, 0.1)


def test_cosines_are_judged_relative_to_the_threshold_of_their_model() -> None:
    # E5 gives unrelated texts cosines near 0.78, which MiniLM gives to paraphrases.
    assert judge(0.78, 1.0, model=MINILM)
    assert not judge(0.78, 1.0, model=E5)
    assert judge(0.95, 1.0, model=E5)


def test_an_empty_result_has_no_strong_match() -> None:
    assert not has_strong_match(Legs(), [], MINILM)


async def write_equal(services: Services, tenant: Tenant, provider: FailingProvider, count: int) -> list[UUID]:
    """Entries with the same words and the same vector, in their order."""
    provider.default = provider.direction(1)
    results = await services.entries.create_many(
        tenant.id, [EntryDraft(content="The harbour", external_id=f"e{n}") for n in range(count)]
    )
    await services.embedder.embed_all(tenant.id)
    return [result.id for result in results if result.id is not None]


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize("fusion", ["rrf", "score"])
@pytest.mark.parametrize("tags", [None, ["sea"]])
async def test_newest_change_comes_first(
    services: Services,
    tenant: Tenant,
    failing_provider: FailingProvider,
    mode: Mode,
    fusion: Fusion,
    tags: list[str] | None,
) -> None:
    written = await write_equal(services, tenant, failing_provider, 4)
    for entry_id in written[::2]:
        await services.entries.change(tenant.id, entry_id, EntryDraft(tags=["sea"]))
    query = SearchQuery(query="harbour", mode=mode, fusion=fusion, tags=tags)
    found = ids(await services.search.search(tenant.id, query))
    changed = [written[2], written[0]]
    assert found == (changed if tags else [*changed, written[3], written[1]])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
async def test_cut_keeps_the_newest(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, mode: Mode
) -> None:
    written = await write_equal(services, tenant, failing_provider, 150)
    changed = written[:5]
    for entry_id in changed:
        await services.entries.change(tenant.id, entry_id, EntryDraft(tags=["sea"]))
    found = ids(await services.search.search(tenant.id, SearchQuery(query="harbour", mode=mode)))
    assert found == [*reversed(changed), *reversed(written[-5:])]


async def test_cut_of_the_entries_that_pass_a_filter_keeps_the_newest(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    written = await write_equal(services, tenant, failing_provider, 40)
    (other,) = await write(services, tenant, "The lighthouse", entry_type="lesson")
    query = SearchQuery(query="harbour", mode="semantic", limit=1, entry_type="fact")
    assert ids(await services.search.search(tenant.id, query)) == [written[-1]]
    assert other not in written
