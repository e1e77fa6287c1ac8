"""The fusion of both legs, with a worked example."""

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import RRF_WEIGHTS, SCORE_WEIGHTS, SearchQuery, Weights
from app.contract.vocabulary import Fusion
from app.db.queries.search import LegHit
from app.embeddings.cosines import cosine_stretch, stretch_cosine
from app.knowledge.search.legs.keyword import KeywordHits, Replacements
from app.knowledge.search.ranking import Candidate, apply_boosts, join_legs, rank, reciprocal_rank_fusion, score_fusion
from tests.knowledge.writing import write

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(number: int) -> UUID:
    return UUID(int=number)


def candidate(number: int, semantic: int | None = None, keyword: int | None = None) -> Candidate:
    return Candidate(entry(number), NOW, semantic_rank=semantic, keyword_rank=keyword)


def keyword_hits(best: float | None, full_match: float, entries: int = 1_000_000) -> KeywordHits:
    hits = [] if best is None else [LegHit(entry(1), NOW, best)]
    return KeywordHits(
        hits=hits,
        total=len(hits),
        complete=True,
        full_match=full_match,
        entries=entries,
        whole=False,
        replacements=Replacements(),
        seconds=0.0,
    )


@pytest.mark.parametrize(("semantic", "keyword", "score"), [(1, 5, 0.0161), (3, None, 0.0111), (None, 1, 0.0049)])
def test_reciprocal_ranks_are_added_as_in_the_contract(semantic: int | None, keyword: int | None, score: float) -> None:
    one = candidate(1, semantic, keyword)
    reciprocal_rank_fusion([one], Weights(0.7, 0.3))
    assert round(one.score, 4) == score
    assert one.score == one.semantic_term + one.keyword_term
    assert one.sources == [leg for leg, place in (("semantic", semantic), ("keyword", keyword)) if place is not None]


def test_reciprocal_ranks_depend_on_weights_and_k() -> None:
    one = candidate(1, semantic=2, keyword=4)
    reciprocal_rank_fusion([one], Weights(0.25, 0.75), k=10)
    assert one.score == pytest.approx(0.25 / 12 + 0.75 / 14)


def test_weights_are_not_renormalised_for_an_absent_leg() -> None:
    only = candidate(1, keyword=1)
    reciprocal_rank_fusion([only], Weights(0.7, 0.3))
    assert only.score == 0.3 / 61


def test_equal_scores_are_ordered_by_newest_change_then_by_id() -> None:
    older, newer, newer_too = candidate(3, 1), candidate(2, 1), candidate(1, 1)
    newer.updated_at = newer_too.updated_at = NOW + timedelta(microseconds=1)
    reciprocal_rank_fusion([older, newer, newer_too], RRF_WEIGHTS)
    assert [c.entry_id for c in rank([older, newer, newer_too])] == [entry(1), entry(2), entry(3)]


def test_joined_legs_have_ranks_from_one_and_each_entry_once() -> None:
    semantic = [LegHit(entry(1), NOW, 0.9), LegHit(entry(2), NOW, 0.8)]
    keyword = [LegHit(entry(2), NOW, 7.0), LegHit(entry(3), NOW, 5.0)]
    joined = {c.entry_id: c for c in join_legs(semantic, keyword)}
    assert {i.int: (c.semantic_rank, c.keyword_rank) for i, c in joined.items()} == {
        1: (1, None),
        2: (2, 1),
        3: (None, 2),
    }
    assert joined[entry(2)].similarity == 0.8
    assert joined[entry(2)].keyword_score == 7.0
    assert joined[entry(3)].similarity is None
    assert joined[entry(1)].keyword_score is None


def test_scores_are_the_cosine_and_a_power_of_the_share_of_a_full_match() -> None:
    both, words, meaning = candidate(1), candidate(2), candidate(3)
    both.similarity, both.keyword_score = 0.8, 5.0
    words.keyword_score, words.cosine = 10.0, 0.2
    meaning.similarity = 0.6
    score_fusion([both, words, meaning], Weights(0.6, 0.4), 40.0)
    assert both.score == pytest.approx(0.6 * 0.8 + 0.4 * 0.125**1.5)
    assert words.score == pytest.approx(0.6 * 0.2 + 0.4 * 0.25**1.5)
    assert meaning.score == pytest.approx(0.36)


def test_a_score_does_not_depend_on_the_other_candidates() -> None:
    def score(*others: float) -> float:
        one = candidate(1)
        one.similarity, one.keyword_score = 0.5, 5.0
        pool = [one, *(candidate(n) for n in range(2, 2 + len(others)))]
        for other, words in zip(pool[1:], others, strict=True):
            other.keyword_score = words
        score_fusion(pool, Weights(0.4, 0.6), 20.0)
        return one.score

    assert score() == score(19.0) == score(1.0, 20.0)


def test_a_few_words_of_a_question_do_not_outweigh_a_near_vector_but_all_of_them_do() -> None:
    """A fifth of the words is what unrelated entries share with a question."""
    near, few, full = candidate(1), candidate(2), candidate(3)
    near.similarity = 0.4
    few.cosine, few.keyword_score = 0.25, 2.0
    full.cosine, full.keyword_score = 0.25, 7.5
    score_fusion([near, few, full], SCORE_WEIGHTS, 10.0)
    assert [c.entry_id.int for c in rank([near, few, full])] == [3, 1, 2]


def test_a_short_query_is_measured_against_a_full_match_or_what_exceeds_it() -> None:
    assert keyword_hits(best=5.0, full_match=12.0).scale == pytest.approx(12.0)
    assert keyword_hits(best=14.0, full_match=12.0).scale == pytest.approx(14.0)
    assert keyword_hits(best=None, full_match=12.0).scale == 0.0


def test_a_long_query_is_measured_against_three_words_that_one_entry_has() -> None:
    """A term is then BM25 * sqrt(BM25 / full match) / the score of three such words."""
    rare = 2.2 * 2 / (2 + 1.2) * math.log(1 + 999.5 / 1.5)
    found = keyword_hits(best=30.0, full_match=90.0, entries=1000)
    one = candidate(1)
    one.keyword_score = 30.0
    score_fusion([one], Weights(0.0, 1.0), found.scale)
    assert one.score == pytest.approx(30.0 * math.sqrt(30.0 / 90.0) / (3 * rare))
    assert keyword_hits(best=20.0, full_match=3 * rare, entries=1000).scale == pytest.approx(3 * rare)


def test_score_fusion_counts_a_negative_cosine_as_zero() -> None:
    opposite = candidate(1)
    opposite.keyword_score, opposite.cosine = 2.0, -0.5
    score_fusion([opposite], Weights(0.5, 0.5), 2.0)
    assert opposite.score == 0.5


def test_score_fusion_without_keyword_hits_does_not_divide_by_zero() -> None:
    one = candidate(1)
    one.similarity = 0.5
    score_fusion([one], Weights(0.5, 0.5), 0.0)
    assert one.score == 0.25
    score_fusion([], RRF_WEIGHTS, 0.0)


def test_boosts_multiply_and_are_kept_by_name() -> None:
    lifted, left = candidate(1, 1), candidate(2, 1)
    reciprocal_rank_fusion([lifted, left], RRF_WEIGHTS)
    before = left.score
    apply_boosts([lifted, left], {entry(1): {"type": 2.0, "verified": 1.5}})
    assert lifted.score == pytest.approx(before * 3)
    assert lifted.boosts == {"type": 2.0, "verified": 1.5}
    assert left.score == before
    assert left.boosts == {}


def test_cosines_of_a_model_with_close_texts_are_stretched_to_those_of_the_measured_one() -> None:
    assert stretch_cosine(0.78, cosine_stretch(0.78)) == pytest.approx(0.3)
    assert stretch_cosine(0.89, cosine_stretch(0.78)) == pytest.approx(0.65)
    assert stretch_cosine(1.0, cosine_stretch(0.78)) == pytest.approx(1.0)
    assert [stretch_cosine(0.37, cosine_stretch(threshold)) for threshold in (0.1, 0.3)] == [0.37, 0.37]


def test_a_near_vector_outranks_a_few_words_with_such_a_model_too() -> None:
    near, words = candidate(1), candidate(2)
    near.similarity, words.similarity, words.keyword_score = 0.9, 0.8, 2.5
    score_fusion([near, words], SCORE_WEIGHTS, 10.0, threshold=0.78)
    assert near.score > words.score
    score_fusion([near, words], SCORE_WEIGHTS, 10.0)
    assert near.score < words.score, "unscaled, a quarter of the words counts more"


ENTRIES: dict[str, dict[str, Any]] = {
    "vercel-overview": {
        "title": "Vercel overview",
        "content": "Vercel hosts our front end. Each push to main is built and deployed; previews exist for branches.",
        "entry_type": "summary",
        "tags": ["vercel", "hosting"],
    },
    "vercel-routes": {
        "title": "Route order in vercel.json",
        "content": "Routes in vercel.json are matched from top to bottom. Order the specific routes first and put the "
        "catch-all last, or it swallows the API.",
        "entry_type": "lesson",
        "tags": ["vercel", "routing", "serverless"],
        "parent": "vercel-overview",
    },
    "serverless-order": {
        "title": "Order of serverless handlers",
        "content": "On serverless platforms the route table is read in order and the first match wins, whatever "
        "the provider is.",
        "tags": ["serverless", "routing"],
    },
    "vercel-limits": {
        "title": "Limits of functions",
        "content": "A function may run for 60 seconds and answer with at most 4.5 MB.",
        "tags": ["vercel", "limits"],
        "parent": "vercel-overview",
    },
    "conn-reset": {
        "title": "ERR_CONN_RESET after a deploy",
        "content": "ERR_CONN_RESET in the logs means that the pooler closed an idle connection; the client retries.",
        "entry_type": "lesson",
        "tags": ["postgres", "errors"],
    },
    "conn-refused": {"content": "ERR_CONN_REFUSED means that nothing listens on the port.", "tags": ["errors"]},
    "know-004": {"content": "KNOW-004: feature flags are removed two releases after they are fully on."},
    "know-040": {"content": "KNOW-040: every flag has an owner and a date."},
    "version-214": {"content": "Version 2.14.1 of the billing service fixed rounding of refunds."},
    "version-210": {"content": "Version 2.10.0 of the billing service brought invoices as PDF."},
    "python-3114": {"content": "The workers run Python 3.11.4; older ones crash in the tokenizer."},
    "python-3141": {"content": "Python 3.14.1 is tried on one worker."},
    "python-31140": {"content": "Python 3.11.40 does not exist, but a ticket of April names it."},
    "password": {"content": "To regain access when a password is forgotten, use the link on the sign-in page."},
    "salary": {"content": "Salaries are paid on the 25th; the bank needs two days."},
    "holiday": {"content": "Vacation days are requested in the people tool and approved by the team lead."},
    "backup-de": {
        "title": "Datensicherung",
        "content": "Die Datenbank wird jede Nacht gesichert. Sicherungen werden dreißig Tage aufbewahrt.",
    },
    "restore-de": {
        "content": "Zum Wiederherstellen einer Sicherung wird zuerst ein leerer Cluster angelegt, nie der laufende "
        "überschrieben."
    },
    "phrase-exact": {"content": "Our motto is to measure twice and cut once before any migration."},
    "phrase-mixed": {"content": "Once you cut the release, measure the load, twice if the migration was large."},
    "onboarding": {"content": "New colleagues get a laptop, a badge and a buddy on their first day."},
    "kubernetes": {"content": "Kubernetes clusters are upgraded every quarter, staging first."},
    "postmortem": {
        "content": "After an outage we write down what happened without blaming anybody.",
        "entry_type": "template",
    },
    "lunch": {"content": "On Thursdays the kitchen serves soup; say if you eat no meat."},
    "c-sharp": {
        "content": "The desktop client is written in C# and C++ & signed with an EV certificate (100 % of builds)."
    },
}
# Exact, semantic and mixed matches, special characters, irrelevant questions.
EXPECTED: list[tuple[str, list[str]]] = [
    ("How to order routes in vercel.json", ["vercel-routes", "serverless-order", "vercel-overview"]),
    ("ERR_CONN_RESET", ["conn-reset"]),
    ("KNOW-004", ["know-004"]),
    ("2.14.1", ["version-214"]),
    ("3.11.4", ["python-3114"]),
    ("which workers run Python 3.11.4?", ["python-3114"]),
    ("what does ERR_CONN_RESET mean", ["conn-reset", "conn-refused"]),
    ("KNOW-040 flag owner", ["know-040", "know-004"]),
    ("vercel.json", ["vercel-routes"]),
    ('"measure twice and cut once"', ["phrase-exact"]),
    ("I forgot my login credentials", ["password"]),
    ("requesting a vacation", ["holiday"]),
    ("when do I get paid", ["salary"]),
    ("kubernets", ["kubernetes"]),
    ("Wie lange werden Sicherungen aufbewahrt?", ["backup-de"]),
    ("Sicherung wiederherstellen", ["restore-de"]),
    ("Limits of functions", ["vercel-limits"]),
    ("C++ & C# (desktop)", ["c-sharp"]),
    ("what do we do after the site was down", ["postmortem"]),
]


@pytest.fixture(scope="module")
async def stock(local_services: Services) -> AsyncIterator[tuple[Tenant, dict[str, str]]]:
    """The tenant with the entries, and their names by id."""
    tenant = await local_services.tenants.create(NewTenant("ranking"), actor="test")
    names: dict[str, str] = {}
    ids: dict[str, Any] = {}
    for name, values in ENTRIES.items():
        given = {k: v for k, v in values.items() if k != "parent"}
        if "parent" in values:
            given["parent_id"] = ids[values["parent"]]
        entry, _ = await local_services.entries.create(tenant.id, EntryDraft(**given))
        ids[name] = entry.id
        names[str(entry.id)] = name
    yield tenant, names
    await local_services.tenants.delete(tenant.id, actor="test")


async def ask(services: Services, stock: tuple[Tenant, dict[str, str]], query: str, **options: Any) -> list[str]:
    result: SearchResult = await services.search.search(stock[0].id, SearchQuery(query, **options))
    return [stock[1][str(hit.id)] for hit in result]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fusion", ["rrf", "score"])
@pytest.mark.parametrize(("query", "expected"), EXPECTED, ids=[query for query, _ in EXPECTED])
async def test_query_ranks_its_relevant_entry_first(
    local_services: Services, stock: tuple[Tenant, dict[str, str]], query: str, expected: list[str], fusion: Any
) -> None:
    found = await ask(local_services, stock, query, fusion=fusion)
    assert found[: len(expected)] == expected


async def test_irrelevant_question_has_no_similar_entry(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    assert await ask(local_services, stock, "zygote mitosis telophase", mode="semantic") == []


@pytest.mark.parametrize("diversity", [0.0, 0.9])
async def test_entries_with_the_identifier_rank_above_similar_ones(
    local_services: Services, stock: tuple[Tenant, dict[str, str]], diversity: float
) -> None:
    """In the semantic leg the wrong version is closer, and the right one is below the threshold."""
    for query, right, wrong in (("3.11.4", "python-3114", "python-31140"), ("2.14.1", "version-214", "python-3141")):
        assert (await ask(local_services, stock, query, mode="semantic"))[0] == wrong
        found = await ask(local_services, stock, query, diversity=diversity)
        assert found[0] == right
        assert wrong in found, "meaning is still asked"


async def test_identifier_of_another_case_is_found(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    assert (await ask(local_services, stock, "err_conn_reset", mode="keyword"))[0] == "conn-reset"
    assert (await ask(local_services, stock, "know-004", mode="keyword"))[0] == "know-004"


async def test_related_entries_are_graded_by_shared_tags(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, names = stock
    routes = next(i for i, name in names.items() if name == "vercel-routes")
    entry = await local_services.entries.list_entries(tenant.id, tag="routing")
    assert {names[str(e.id)] for e in entry.items} == {"vercel-routes", "serverless-order"}
    found = await local_services.reading.related(tenant.id, next(e.id for e in entry.items if str(e.id) == routes))
    assert [(names[str(r.id)], r.relationship, r.overlap_count) for r in found.results] == [
        ("vercel-overview", "parent", None),
        ("vercel-limits", "sibling", None),
        ("serverless-order", "tag_overlap", 2),
    ]


async def test_ten_concurrent_searches_answer_like_sequential_ones(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    queries = [query for query, _ in EXPECTED[:10]]
    one_by_one = [await ask(local_services, stock, query) for query in queries]
    at_once = await asyncio.gather(*(ask(local_services, stock, query) for query in queries))
    assert at_once == one_by_one


WORKED_ENTRIES = (
    "In vercel.json, order routes from specific to parameterised: /api/users/me before /api/users/:id.",
    "In serverless functions the order of route definitions matters: specific patterns come before wildcards.",
    "Vercel deployment configuration: vercel.json supports rewrites, redirects and headers.",
)
QUERY = "How to order routes in vercel.json"


@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_an_entry_with_the_name_in_the_question_ranks_above_one_with_its_subject(
    local_services: Services, fusion: Fusion
) -> None:
    """Both legs agree on it, so neither fusion can tell: the model sees the name, and the name is the rarest word.

    In rank fusion no change of the keyword leg can help as long as it finds both entries: at 0.7 to 0.3, one rank of
    the semantic leg counts more than one of the keyword leg. Leaving out entries that have only the name would lose the
    answers to most questions about a name.
    """
    tenant = await local_services.tenants.create(NewTenant(f"worked-example-{fusion}"), actor="test")
    ids = await write(local_services, tenant, *WORKED_ENTRIES, language="english")
    wanted = SearchQuery(query=QUERY, fusion=fusion, explain=True)
    found = await local_services.search.search(tenant.id, wanted)
    await local_services.tenants.delete(tenant.id, actor="test")
    assert [ids.index(hit.id) + 1 for hit in found] == [1, 3, 2]
    assert found.debug_info is not None
    ranks = [(hit.semantic_rank, hit.keyword_rank) for hit in found.debug_info.hits]
    assert ranks == [(1, 1), (2, 2), (3, 3)]


def test_one_rank_of_the_semantic_leg_counts_more_than_one_of_the_keyword_leg() -> None:
    now = datetime(2026, 1, 15, tzinfo=UTC)
    named = Candidate(UUID(int=3), now, semantic_rank=2, keyword_rank=3)
    general = Candidate(UUID(int=2), now, semantic_rank=3, keyword_rank=2)
    reciprocal_rank_fusion([named, general], RRF_WEIGHTS)
    assert named.score > general.score
