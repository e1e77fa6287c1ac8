"""Searches, with their further pages and receipts."""

import logging
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery, Weights, most_hits
from app.contract.settings import SettingsPatch
from app.contract.vocabulary import Boost, Fusion, Mode
from app.db.rows import new_id
from app.embeddings.resilience import QueryCache
from app.errors import CursorExpired, InvalidInput, TenantNotFound
from app.knowledge.search.query import is_identifier
from app.knowledge.search.ranking import FURTHER
from tests.fixtures.database.cluster import execute
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import explanation_of, keyword_leg_of, make_search, semantic_leg_of
from tests.knowledge.conftest import RunJobs
from tests.knowledge.search.history import History
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def test_hybrid_search_fuses_both_legs_by_their_ranks(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    d = failing_provider.direction
    failing_provider.vectors = {
        "alpha words": d(1, 0.1),
        "beta harbour": d(1, 0.3),
        "gamma words": d(1, 0.9),
        "delta harbour harbour": d(0, 1),
        "harbour": d(1, 0),
    }
    alpha, beta, gamma, delta = await write(
        services, tenant, "alpha words", "beta harbour", "gamma words", "delta harbour harbour", language="english"
    )
    query = SearchQuery(query="harbour", fusion="rrf", similarity_threshold=0.5, explain=True)
    result = await services.search.search(tenant.id, query)
    found = {hit.id: hit for hit in result}
    assert found[alpha].score == pytest.approx(0.7 / 61)
    assert found[beta].score == pytest.approx(0.7 / 62 + 0.3 / 62)
    assert found[gamma].score == pytest.approx(0.7 / 63)
    assert found[delta].score == pytest.approx(0.3 / 61)
    assert ids(result) == [beta, alpha, gamma, delta]
    assert found[beta].sources == ["semantic", "keyword"]
    assert (found[alpha].keyword_score, found[delta].similarity) == (None, None)
    assert found[alpha].similarity == pytest.approx(d(1, 0.1)[0], abs=1e-3)
    assert found[beta].matched_terms == ("harbour",)
    assert found[alpha].matched_terms == ()
    assert result.metadata.search_modes_used == ["semantic", "keyword"]
    assert result.metadata.total == 4
    assert [hit.score for hit in explanation_of(result).hits] == [hit.score for hit in result]
    assert semantic_leg_of(result).strategy == "exact"


async def test_modes_run_their_own_legs(services: Services, tenant: Tenant, failing_provider: FailingProvider) -> None:
    await write(services, tenant, "harbour")
    for mode, legs, calls in (("keyword", ["keyword"], 0), ("semantic", ["semantic"], 1)):
        failing_provider.queries.clear()
        query = SearchQuery(query="harbour", mode=mode, fusion="rrf")  # type: ignore[arg-type]
        result = await services.search.search(tenant.id, query)
        assert result.metadata.search_modes_used == legs
        assert result.metadata.fallback_mode is False
        assert result[0].sources == legs
        assert result[0].score == pytest.approx((0.3 if mode == "keyword" else 0.7) / 61)
        assert len(failing_provider.queries) == calls


async def test_threshold_cuts_the_semantic_leg_only(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    d = failing_provider.direction
    failing_provider.vectors = {"exact": d(0.6, 0.8), "below harbour": d(0.59, 0.81), "harbour": d(1)}
    exact, below = await write(services, tenant, "exact", "below harbour")
    result = await services.search.search(tenant.id, SearchQuery(query="harbour", similarity_threshold=0.6))
    found = {hit.id: hit for hit in result}
    assert found[exact].sources == ["semantic"], "a cosine that equals the threshold is kept"
    assert found[below].sources == ["keyword"]


async def test_given_query_embedding_needs_no_provider(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    (entry,) = await write(services, tenant, "harbour")
    embedding = [float(x) for x in 3 * await failing_provider.embed_query("harbour")]
    failing_provider.down = True
    result = await services.search.search(
        tenant.id, SearchQuery(query="unrelated", mode="semantic", query_embedding=embedding)
    )
    assert result[0].id == entry
    assert result[0].similarity == pytest.approx(1, abs=1e-3)
    assert result.metadata.fallback_mode is False


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_absent_provider_falls_back_to_keywords(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, caplog: pytest.LogCaptureFixture, mode: Any
) -> None:
    await write(services, tenant, "harbour harbour", "harbour and very much else besides", "else")
    by_words = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword"))
    failing_provider.down = True
    with caplog.at_level(logging.INFO, "app.knowledge.search"):
        result = await services.search.search(tenant.id, SearchQuery(query="harbour", mode=mode))
        by_ranks = await services.search.search(tenant.id, SearchQuery(query="harbour", mode=mode, fusion="rrf"))
    assert ids(result) == ids(by_words) == ids(by_ranks)
    assert [hit.score for hit in result] == [hit.score for hit in by_words]
    assert [hit.score for hit in by_ranks] == [0.3 / 61, 0.3 / 62]
    assert result.metadata.fallback_mode is True
    assert result.metadata.search_modes_used == ["keyword"]
    assert result.metadata.degraded == ["embedding_unavailable"]
    warning, _ = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.getMessage() == "mock unavailable, using keyword-only fallback"
    assert warning.__dict__["attempts"] == 3


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
async def test_keyword_fallback_is_ordered_even_with_a_keyword_weight_of_zero(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, mode: Any
) -> None:
    best = "harbour harbour harbour"
    await write(services, tenant, best, "harbour harbour and more", "harbour and very much else besides, later")
    by_words = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword"))
    failing_provider.down = True
    weights = Weights(1.0, 0.0)
    result = await services.search.search(tenant.id, SearchQuery(query="harbour", mode=mode, weights=weights))
    assert result[0].content == best
    assert ids(result) == ids(by_words)
    assert [hit.score for hit in result] == [0.0, 0.0, 0.0]


async def test_each_search_logs_one_line_without_the_query(
    services: Services, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    await write(services, tenant, "harbour secretword")
    with caplog.at_level(logging.DEBUG, "app"):
        result = await services.search.search(tenant.id, SearchQuery(query="secretword"))
    (line,) = [r for r in caplog.records if r.levelno == logging.INFO and r.getMessage() == "search"]
    fields = line.__dict__
    assert fields["search_id"] == str(result.metadata.search_id)
    assert fields["tenant_id"] == str(tenant.id)
    assert (fields["query_length"], fields["result_count"]) == (10, 1)
    for name in (
        "top_similarity",
        "embedding_ms",
        "semantic_ms",
        "keyword_ms",
        "fusion_ms",
        "query_time_ms",
        "waiting_ms",
    ):
        assert name in fields
    assert not any("secretword" in repr(record.__dict__) for record in caplog.records)


async def test_search_never_shows_another_tenants_entries(
    services: Services, tenant: Tenant, other_tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.default = failing_provider.direction(1)
    own = await write(services, tenant, *(f"harbour {n}" for n in range(5)))
    foreign = await write(services, other_tenant, *(f"harbour {n}" for n in range(5)))
    for tenant_id, expected in ((tenant.id, own), (other_tenant.id, foreign)):
        result = await services.search.search(tenant_id, SearchQuery(query="harbour", limit=100))
        assert set(ids(result)) == set(expected)


async def test_unknown_tenant_is_not_found(services: Services) -> None:
    with pytest.raises(TenantNotFound):
        await services.search.search(uuid4(), SearchQuery(query="x"))


@pytest.mark.parametrize("fusion", ["rrf", "score"])
async def test_hidden_entries_are_not_found(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, fusion: Any
) -> None:
    failing_provider.default = failing_provider.direction(1)
    shown, expired, soon, old = await write(
        services, tenant, "harbour one", "harbour two", "harbour three", "harbour four"
    )
    await services.entries.change(tenant.id, old, EntryDraft(superseded_by_id=shown))
    now = datetime.now(UTC)
    await services.entries.change(tenant.id, soon, EntryDraft(expires_at=now + timedelta(hours=1)))
    await services.entries.change(tenant.id, expired, EntryDraft(expires_at=now - timedelta(seconds=1)))
    for mode in ("keyword", "semantic", "hybrid"):
        query: dict[str, Any] = {"query": "harbour", "mode": mode, "fusion": fusion}
        result = await services.search.search(tenant.id, SearchQuery(**query))
        assert set(ids(result)) == {shown, soon}
        wider = await services.search.search(tenant.id, SearchQuery(**query, include_superseded=True))
        assert set(ids(wider)) == {shown, soon, old}


async def test_search_without_results_suggests_tags_of_the_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await write(services, tenant, "The harbour has a lighthouse", tags=["harbour", "lighthouse"])
    await write(services, other_tenant, "The harbours of others", tags=["harbours"])
    query = SearchQuery(query="harbourside", mode="keyword")
    result = await services.search.search(tenant.id, query)
    assert len(result) == 0
    assert result.metadata.suggestions == ["harbour", "lighthouse"]


async def test_fusion_of_the_tenant_is_the_default_and_without_one_by_score(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "harbour")
    for chosen, asked, used in (
        (None, None, "score"),
        ("rrf", None, "rrf"),
        ("rrf", "score", "score"),
        ("score", "rrf", "rrf"),
    ):
        await services.tenants.change_settings(tenant.id, SettingsPatch(fusion=chosen))  # type: ignore[arg-type]
        query = SearchQuery(query="harbour", fusion=asked, explain=True)  # type: ignore[arg-type]
        debug = explanation_of(await services.search.search(tenant.id, query))
        assert debug.fusion == used
        assert debug.weights.semantic == (0.5 if used == "score" else 0.7)


async def test_settings_of_the_tenant_are_the_defaults(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "harbour")
    await services.tenants.change_settings(
        tenant.id,
        SettingsPatch(
            fusion="rrf", weights=Weights(semantic=0.2, keyword=0.8), similarity_threshold=0.99, max_limit=20
        ),
    )
    result = await services.search.search(tenant.id, SearchQuery(query="harbour", explain=True))
    assert result[0].score == pytest.approx(0.2 / 61 + 0.8 / 61)
    assert explanation_of(result).similarity_threshold == 0.99
    chosen = await services.search.search(
        tenant.id, SearchQuery(query="harbour", weights=Weights(1, 0), similarity_threshold=0)
    )
    assert chosen[0].score == pytest.approx(1 / 61)
    with pytest.raises(InvalidInput, match="limit: must be between 1 and 20 in this tenant"):
        await services.search.search(tenant.id, SearchQuery(query="harbour", limit=21))


async def test_default_limit_is_that_of_the_tenant(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, *(f"harbour {n}" for n in range(12)))

    async def count(**fields: Any) -> int:
        return len(await services.search.search(tenant.id, SearchQuery(query="harbour", **fields)))

    assert (await count(), await count(limit=12)) == (10, 12)
    with most_hits(4):
        assert await count() == 4
    await services.tenants.change_settings(tenant.id, SettingsPatch(max_limit=3))
    assert await count() == 3
    await services.tenants.change_settings(tenant.id, SettingsPatch(default_limit=2))
    assert (await count(), await count(limit=3)) == (2, 3)


async def test_score_fusion_ranks_by_cosine_and_keyword_score(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    d = failing_provider.direction
    failing_provider.vectors = {"near": d(1, 0.1), "harbour far": d(0, 1), "harbour close": d(1, 0.5), "harbour": d(1)}
    near, far, close = await write(services, tenant, "near", "harbour far", "harbour close")
    query = SearchQuery(
        query="harbour", fusion="score", weights=Weights(0.6, 0.4), similarity_threshold=0.5, explain=True
    )
    result = await services.search.search(tenant.id, query)
    found = {hit.id: hit.score for hit in result}
    assert ids(result) == [close, near, far]
    assert found[near] == pytest.approx(0.6 * d(1, 0.1)[0], abs=1e-3)
    words = keyword_leg_of(result)
    assert result.debug_info is not None
    covered = (words.best_score / (result.debug_info.keyword_scale or 0.0)) ** 1.5
    assert found[far] == pytest.approx(0.4 * covered, abs=1e-3)


BATCH = [SearchQuery(query="harbour"), SearchQuery(query="crane")]


async def test_cached_query_vectors_of_a_batch_belong_to_its_tenant(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    model_id = (await services.tenants.context(tenant.id)).space.model_id
    search = make_search(services, providers={model_id: QueryCache(failing_provider)})
    other = await services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    failing_provider.calls.clear()
    for tenant_id in (tenant.id, other.id, tenant.id, other.id):
        await search.search_many(tenant_id, BATCH)
    assert failing_provider.calls == [["harbour", "crane"]] * 2
    # A single search uses the cached vector of its tenant's batch, and never one of another tenant.
    failing_provider.queries.clear()
    await search.search(tenant.id, BATCH[0])
    assert failing_provider.queries == []


async def test_a_batch_without_a_provider_of_its_model_falls_back_to_keywords(
    services: Services, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    for result in await make_search(services, providers={}).search_many(tenant.id, BATCH):
        assert isinstance(result, SearchResult)
        assert (result.metadata.fallback_mode, result.metadata.degraded) == (True, ["embedding_unavailable"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
async def test_answers_tell_what_is_so(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await History(services, tenant, failing_provider, random.Random(seed)).play(25)  # noqa: S311


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
async def test_answers_tell_what_is_so_in_long_histories(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await History(services, tenant, failing_provider, random.Random(seed)).play(80)  # noqa: S311


@pytest.mark.parametrize(
    "query", ["KNOW-004", "vercel.json", "ERR_CONN_RESET", "2.14.1", "v2.0.0-rc.1", "src/app/main.py"]
)
def test_identifier_is_recognised(query: str) -> None:
    assert is_identifier(query)


@pytest.mark.parametrize("query", ["harbour", "well-known", "KNOW-004 flags", "-", "4", "a b_c", "C++"])
def test_ordinary_query_is_not_an_identifier(query: str) -> None:
    assert not is_identifier(query)


FILLER = "Nothing of interest is written in this sentence, which is only here for its length. " * 22


def spell(number: int) -> str:
    """A word for a number: texts that differ only in numbers would be one hit."""
    return str(number).translate(str.maketrans("0123456789", "abcdefghij"))


def document(name: str, passages: int) -> bytes:
    """A text of about so many chunks, each with the word quokka."""
    return "\n\n".join(f"Part {spell(n)} of {name} is about the quokka. {FILLER}" for n in range(passages)).encode()


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
    asked = {"mode": mode, "fusion": fusion, "boost": boost, "diversity": diversity, "similarity_threshold": 0.0}
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
    await upload(services, tenant, long=520)
    await services.entries.create_many(
        tenant.id,
        [
            EntryDraft(content=f"Note {spell(n)} mentions a quokka once among many other words. {FILLER}")
            for n in range(4)
        ],
    )
    await run_jobs()
    # The first 500 candidates are all of one asset.
    page = await search(services, tenant, mode="keyword", fusion="rrf", limit=3, group_by="asset")
    assert len(page) == 3
    assert page.metadata.total == 5
    assert page.metadata.degraded == []
    assert max(hit.group.total for hit in page if hit.group is not None) >= 520


@pytest.mark.slow
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


async def test_pages_neither_repeat_nor_skip_while_the_tenant_changes(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    written = await write(services, tenant, *(f"harbour {'filler ' * n}" for n in range(25)), language="english")
    first = await services.search.search(tenant.id, SearchQuery(query="harbour", limit=10))
    assert first.metadata.total == 25
    seen, cursor = list(ids(first)), first.metadata.next_cursor
    await write(services, tenant, "harbour harbour harbour")
    await services.entries.delete(tenant.id, written[24])
    failing_provider.down = False
    pages = 1
    while cursor is not None:
        page = await services.search.search(tenant.id, SearchQuery(query="harbour", limit=10, cursor=cursor))
        assert page.metadata.search_id == first.metadata.search_id
        assert page.metadata.total == 25
        assert page.metadata.fallback_mode is True
        seen += ids(page)
        cursor = page.metadata.next_cursor
        pages += 1
    assert pages == 3
    assert len(seen) == len(set(seen)) == 24
    assert set(seen) == set(written[:24])


async def test_cursor_belongs_to_its_tenant_and_expires(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    for owner in (tenant, other_tenant):
        await write(services, owner, "harbour 1", "harbour 2")
    query = SearchQuery(query="harbour", mode="keyword", limit=1)
    cursor = (await services.search.search(tenant.id, query)).metadata.next_cursor
    continued = SearchQuery(query="harbour", mode="keyword", limit=1, cursor=cursor)
    with pytest.raises(CursorExpired):
        await services.search.search(other_tenant.id, continued)
    assert len(await services.search.search(tenant.id, continued)) == 1
    await execute(superuser_dsn, "delete from searches")
    with pytest.raises(CursorExpired):
        await services.search.search(tenant.id, continued)
    for cursor in ("", "x", "ä", "\ud800", "\x00", "A" * 26, "A" * 28):
        with pytest.raises(InvalidInput, match="cursor: "):
            await services.search.search(tenant.id, SearchQuery(query="harbour", cursor=cursor))


async def test_receipt_contains_ranks_and_the_query_only_if_the_tenant_keeps_it(
    services: Services, tenant: Tenant
) -> None:
    (entry,) = await write(services, tenant, "harbour")
    for keep in (False, True):
        await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=keep))
        result = await services.search.search(tenant.id, SearchQuery(query="harbour"), subject="anna")
        await services.journal.flush()
        kept = await services.administration.receipt(tenant.id, result.metadata.search_id)
        assert kept.receipt.subject == "anna"
        assert kept.receipt.ranking[0].id == entry
        assert kept.receipt.query == ("harbour" if keep else None)


async def test_statistics_count_searches_and_fallbacks(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await write(services, tenant, "harbour")
    for down in (False, True, True, False):
        failing_provider.down = down
        await services.search.search(tenant.id, SearchQuery(query="harbour"))
    await services.journal.flush()
    stats = await services.administration.stats(tenant.id)
    assert (stats.searches_24h, stats.fallback_rate_24h) == (4, 0.5)
    assert stats.entries_by_type == {"fact": 1}
    assert (stats.model.provider, stats.model.name, stats.model.dimensions) == ("mock", "text-hash", 16)


async def test_records_of_a_deleted_tenant_do_not_count_as_lost(
    services: Services, tenant: Tenant, other_tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    for one in (tenant, other_tenant):
        await services.search.search(one.id, SearchQuery(query="harbour"))
    dropped = services.journal.dropped
    await services.tenants.delete(tenant.id, actor="test")
    await services.journal.flush()
    assert (services.journal.dropped, services.journal.waiting) == (dropped, 0)
    assert services.journal.meter.unwritten(tenant.id) == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (await services.administration.stats(other_tenant.id)).searches_24h == 1
