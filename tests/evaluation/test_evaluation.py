"""Evaluations of a whole service, and their cache of vectors."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.embeddings.provider import EmbeddingModel, Vector, resolve_model
from app.embeddings.providers.mock import MockProvider
from app.errors import EmbeddingUnavailable
from app.evaluation.collection import Collection, Document, Query, join_collections, read_collection
from app.evaluation.evaluation import EvaluationFailed, ShowProgress, VectorCache, evaluate, fill_tenant, open_tenant
from app.evaluation.metrics import METRICS, VARIANTS, Variant
from tests.evaluation.samples import hide_progress, make_tiny_collection
from tests.fixtures.providers.failing import FailingProvider

CRANFIELD = Path(__file__).resolve().parents[3] / "shared" / "ir" / "cranfield"


async def test_evaluation_measures_every_variant_and_leaves_nothing(services: Services) -> None:
    evaluation = await evaluate(services, make_tiny_collection(), hide_progress)
    runs = {run.variant.label: run for run in evaluation.runs}
    assert list(runs) == ["keyword", "semantic", "hybrid rrf", "hybrid score"]
    # "pipes" is in d0 and d2, judged 2 and 0, and more frequent in d2; "oven" is only in d1; the third has no match.
    keyword = runs["keyword"].scores
    assert keyword.ndcg == pytest.approx([0.6309, 1.0, 0.0], abs=1e-4)
    assert keyword.values["recall@100"] == [1.0, 1.0, 0.0]
    assert keyword.values["mrr@10"] == [0.5, 1.0, 0.0]
    assert keyword.values["answered"] == [1.0, 1.0, 0.0]
    assert evaluation.baseline is not None
    assert evaluation.baseline.scores.ndcg == pytest.approx(keyword.ndcg)
    against = runs["keyword"].against_baseline
    assert against is not None
    assert (against.difference, against.low, against.high) == pytest.approx((0, 0, 0))
    assert runs["keyword"].against_better_leg is None, "it is the better leg"
    assert runs["semantic"].against_better_leg is not None
    assert runs["hybrid rrf"].against_better_leg is not None
    assert runs["keyword"].estimates["recall@100"].mean == pytest.approx(2 / 3)
    assert await services.tenants.list_tenants() == []


async def test_evaluation_finds_equal_vectors_by_the_semantic_leg(services: Services) -> None:
    tiny = make_tiny_collection()
    same = Query("q9", tiny.documents[4].text, {"d4": 1})
    evaluation = await evaluate(services, replace(tiny, queries=[same]), hide_progress, variants=[Variant("semantic")])
    assert evaluation.runs[0].scores.means == dict.fromkeys(METRICS, 1.0)
    assert evaluation.runs[0].against_better_leg is None


async def test_parts_are_searched_apart_and_reported_together(services: Services) -> None:
    tiny = make_tiny_collection()
    first = Query("a", "pipes", {"d0": 2, "d2": 0}, group="pipes")
    # Both parts have a document d1; the other part's must not be found.
    second = Query("b", "oven pipes", {"d1": 1}, group="oven")
    bread = replace(tiny, name="bread", documents=tiny.documents[1:2], queries=[second])
    whole = join_collections("both", [replace(tiny, queries=[first]), bread])
    evaluation = await evaluate(services, whole, hide_progress, variants=VARIANTS[:2])
    assert evaluation.runs[0].scores.ndcg == pytest.approx([0.6309, 1.0], abs=1e-4)
    assert evaluation.baseline is not None
    assert evaluation.baseline.scores.ndcg == pytest.approx([0.6309, 1.0], abs=1e-4)
    assert [(group.name, group.queries) for group in evaluation.groups] == [("oven", 1), ("pipes", 1)]
    assert [group.runs[0].scores.ndcg for group in evaluation.groups] == [[1.0], pytest.approx([0.6309], abs=1e-4)]
    assert await services.tenants.list_tenants() == []


async def test_tenant_is_filled_and_maintained(services: Services) -> None:
    tiny = make_tiny_collection()
    async with open_tenant(services, "Über alles & more") as tenant_id:
        (tenant,) = await services.tenants.list_tenants()
        assert tenant.slug.startswith("eval-ber-alles-more-")
        documents = await fill_tenant(services, tenant_id, tiny, hide_progress)
        assert sorted(documents.values()) == sorted(d.id for d in tiny.documents)
        assert not await services.worker.run_once()
        result = await services.search.search(tenant_id, SearchQuery(query="oven"))
        assert documents[result[0].id] == "d1"
        assert (await services.tenants.context(tenant_id)).passages == len(tiny.documents)


async def test_two_evaluations_of_one_collection_do_not_interfere(services: Services) -> None:
    tiny = make_tiny_collection()
    keyword = [Variant("keyword")]
    first, second = await asyncio.gather(*(evaluate(services, tiny, hide_progress, variants=keyword) for _ in range(2)))
    assert first.runs[0].scores == second.runs[0].scores
    assert await services.tenants.list_tenants() == []


async def test_tenant_is_removed_when_embedding_fails(services: Services, failing_provider: FailingProvider) -> None:
    failing_provider.down = True
    with pytest.raises(EmbeddingUnavailable):
        await evaluate(services, make_tiny_collection(), hide_progress)
    assert await services.tenants.list_tenants() == []


def announce_steps(announce: Callable[[str], None]) -> ShowProgress:
    """Progress that calls back with the label of each step that starts."""

    def show(label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        announce(label)
        return hide_progress(label, total)

    return show


async def test_tenant_is_removed_when_cancelled(services: Services, failing_provider: FailingProvider) -> None:
    failing_provider.delay = 60
    embedding = asyncio.Event()
    progress = announce_steps(lambda label: embedding.set() if "embed" in label else None)
    task = asyncio.create_task(evaluate(services, make_tiny_collection(), progress))
    async with asyncio.timeout(60):
        await embedding.wait()
    assert len(await services.tenants.list_tenants()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await services.tenants.list_tenants() == []


async def test_a_keyword_only_ranking_is_not_measured_as_hybrid(
    services: Services, failing_provider: FailingProvider
) -> None:
    def fail_in_searches(label: str) -> None:
        failing_provider.down = "hybrid" in label

    with pytest.raises(EvaluationFailed, match="gave no vector for query"):
        await evaluate(services, make_tiny_collection(), announce_steps(fail_in_searches), variants=VARIANTS[2:3])
    assert await services.tenants.list_tenants() == []


async def test_a_refused_document_is_named(services: Services) -> None:
    tiny = make_tiny_collection()
    huge = Document("huge", None, "x" * 100_001)
    with pytest.raises(EvaluationFailed, match=r"document huge is refused: content: must have at most 100000"):
        await evaluate(services, replace(tiny, documents=[*tiny.documents, huge]), hide_progress)
    assert await services.tenants.list_tenants() == []


@pytest.mark.slow
@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="the shared judged collections are not here")
async def test_cranfield_sample_ranks_well_with_the_local_model(local_services: Services) -> None:
    evaluation = await evaluate(local_services, _cut(read_collection(CRANFIELD)), hide_progress)
    ndcg = {run.variant.label: run.scores.means["ndcg@10"] for run in evaluation.runs}
    # 40 documents are far fewer than in the collection, so the figures are higher than those of the whole.
    assert ndcg["keyword"] > 0.55
    assert ndcg["semantic"] > 0.55
    assert ndcg["hybrid rrf"] > 0.6
    assert ndcg["hybrid score"] > 0.6


def _cut(collection: Collection, queries: int = 4, documents: int = 40) -> Collection:
    """Some queries with all their relevant documents, among other documents."""
    sample = collection.sample(queries)
    relevant = {d for q in sample.queries for d, grade in q.judgements.items() if grade > 0}
    others = [d for d in collection.documents if d.id not in relevant]
    drawn = random.Random(0).sample(others, documents - len(relevant))  # noqa: S311
    kept = relevant | {d.id for d in drawn}
    return replace(sample, documents=[d for d in collection.documents if d.id in kept])


class CountingProvider(MockProvider):
    """The mock provider, which records its calls and distinguishes queries from documents."""

    def __init__(self, model: EmbeddingModel | None = None) -> None:
        super().__init__(model or resolve_model("mock", dimensions=16))
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return await super().embed_query(f"query: {text}")

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return await super().embed_documents(texts)


async def test_vectors_are_computed_once_and_kept_exactly(tmp_path: Path) -> None:
    inner = CountingProvider()
    cache = VectorCache(inner, tmp_path / "vectors")
    made = await cache.embed_documents(["a", "b", "a"])
    await cache.close()

    again = VectorCache(inner, tmp_path / "vectors")
    found = await again.embed_documents(["b", "c", "a"])
    await again.close()
    assert inner.asked == ["a", "b", "c"]
    assert np.array_equal(found[0], made[1])
    assert np.array_equal(found[2], made[0])
    assert np.array_equal(made[0], made[2])
    assert (cache.made, again.made) == (2, 1)


async def test_a_query_is_not_confused_with_a_document(tmp_path: Path) -> None:
    cache = VectorCache(CountingProvider(), tmp_path)
    (document,) = await cache.embed_documents(["same"])
    query = await cache.embed_query("same")
    assert not np.array_equal(document, query)
    assert np.array_equal(query, await cache.embed_query("same"))
    await cache.close()


async def test_models_do_not_share_vectors(tmp_path: Path) -> None:
    providers = [CountingProvider(resolve_model("mock", dimensions=n)) for n in (16, 32)]
    for provider in providers * 2:
        cache = VectorCache(provider, tmp_path)
        assert (await cache.embed_query("same")).shape == (provider.model.dimensions,)
        await cache.close()
    assert [provider.asked for provider in providers] == [["same"], ["same"]]


async def test_the_cache_has_the_model_and_the_tokens_of_its_provider(tmp_path: Path) -> None:
    inner = CountingProvider()
    cache = VectorCache(inner, tmp_path)
    assert cache.model == inner.model
    assert cache.count_tokens("three short words") == inner.count_tokens("three short words")
    await cache.close()
