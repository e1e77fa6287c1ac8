"""Vectors: created once, never from an old text, and never lost while the provider is down."""

import asyncio
import threading
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.queries.embeddings import list_pending
from app.errors import EmbeddingUnavailable
from app.knowledge.entries.embedding import make_passages
from tests.fixtures.database.cluster import fetch
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants


async def nearest(services: Services, tenant: Tenant, query: str) -> dict[UUID, float]:
    """The similarity of each entry that the semantic leg finds above 0.9."""
    result = await services.search.search(
        tenant.id, SearchQuery(query=query, mode="semantic", similarity_threshold=0.9, limit=100)
    )
    assert not result.metadata.fallback_mode
    return {hit.id: hit.similarity for hit in result if hit.similarity is not None}


async def test_entry_is_found_by_its_vector(services: Services, tenant: Tenant) -> None:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="lamp", title="Lighthouse"))
    found = await nearest(services, tenant, "Lighthouse\n\nlamp")
    assert found[entry.id] == pytest.approx(1, abs=1e-3)


async def test_vector_of_a_changed_text_is_never_searched(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="old text"))
    assert entry.id in await nearest(services, tenant, "old text")
    failing_provider.down = True
    changed = await services.entries.change(tenant.id, entry.id, EntryDraft(content="new text"))
    assert changed.embedding_status == "pending"
    failing_provider.down = False
    assert entry.id not in await nearest(services, tenant, "old text")
    await run_jobs()
    assert entry.id in await nearest(services, tenant, "new text")
    assert entry.id not in await nearest(services, tenant, "old text")
    assert (await services.entries.get(tenant.id, entry.id)).embedding_status == "ready"


async def test_vector_that_arrives_after_the_text_changed_is_dropped(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    arrival = failing_provider.hold_next_call()
    writing = asyncio.create_task(services.entries.create(tenant.id, EntryDraft(content="old", external_id="e")))
    await failing_provider.entered.wait()
    failing_provider.down = True
    changed = await services.entries.create(tenant.id, EntryDraft(content="new", external_id="e"))
    failing_provider.down = False
    arrival.set()
    await writing
    assert failing_provider.documents == ["old"]
    assert changed[0].embedding_status == "pending"
    assert changed[0].id not in await nearest(services, tenant, "old")
    await run_jobs()
    assert changed[0].id in await nearest(services, tenant, "new")


async def test_change_without_a_new_text_creates_no_vector(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="text"))
    changed = await services.entries.change(tenant.id, entry.id, EntryDraft(tags=["a"], confidence=0.5))
    assert changed.embedding_status == "ready"
    assert failing_provider.documents == ["text"]


async def test_equal_texts_are_embedded_once_in_a_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="same", external_id="0"))
    for n in range(1, 4):
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content="same", external_id=str(n)))
        assert entry.embedding_status == "ready"
    await services.entries.create_many(tenant.id, [EntryDraft(content="twin", external_id=f"t{n}") for n in range(5)])
    await run_jobs()
    assert sorted(failing_provider.documents) == ["same", "twin"]
    assert len(await nearest(services, tenant, "twin")) == 5
    await services.entries.create(other_tenant.id, EntryDraft(content="same"))
    assert failing_provider.documents.count("same") == 2, "another tenant's vectors are not looked at"


async def test_text_that_an_asset_holds_is_not_embedded_again(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    parts = [f"# Part {n}\n\n" + f"Word{n} about the subject. " * 80 for n in range(6)]
    upload = Upload("parts.md", "\n\n".join(parts).encode(), external_id="doc")
    await services.assets.upload(tenant.id, upload)
    await run_jobs()
    first = list(failing_provider.documents)
    assert len(first) >= 6
    parts[3] = "# Part 3\n\n" + "Entirely different. " * 80
    asset, _ = await services.assets.upload(
        tenant.id, Upload("parts.md", "\n\n".join(parts).encode(), external_id="doc")
    )
    await run_jobs()
    asset = await services.assets.get(tenant.id, asset.id)
    assert (asset.status, asset.generation) == ("indexed", 2)
    assert len(failing_provider.documents) == len(set(failing_provider.documents))
    new = failing_provider.documents[len(first) :]
    assert new
    assert all("different" in text or "Part 3" in text for text in new)


async def test_entry_written_without_a_provider_is_found_by_keyword_at_once_and_by_vector_later(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    failing_provider.down = True
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="The lighthouse keeper sleeps."))
    assert entry.embedding_status == "pending"
    found = await services.search.search(tenant.id, SearchQuery(query="lighthouse"))
    assert [hit.id for hit in found] == [entry.id]
    for _ in range(4):
        await run_jobs()
    assert (await services.entries.get(tenant.id, entry.id)).embedding_status == "pending"
    assert (await services.administration.stats(tenant.id)).pending_embeddings == 1
    failing_provider.down = False
    await run_jobs()
    assert (await services.entries.get(tenant.id, entry.id)).embedding_status == "ready"
    assert entry.id in await nearest(services, tenant, "The lighthouse keeper sleeps.")
    assert (await services.administration.stats(tenant.id)).jobs == 0


async def test_slow_provider_leaves_the_vector_to_the_queue(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    failing_provider.down = True
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="slow"))
    failing_provider.down, failing_provider.delay = False, 5
    await services.embedder.embed_soon(tenant.id, [entry.id], 0.05)
    assert (await services.entries.get(tenant.id, entry.id)).embedding_status == "pending"
    failing_provider.delay = 0
    await run_jobs()
    assert (await services.entries.get(tenant.id, entry.id)).embedding_status == "ready"


async def test_text_that_the_provider_refuses_does_not_block_the_others(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    failing_provider.down = True
    entries = [(await services.entries.create(tenant.id, EntryDraft(content=f"text {n}")))[0] for n in range(5)]
    failing_provider.down = False
    failing_provider.refused = {"text 2"}
    for _ in range(6):
        await run_jobs()
        await services.embedder.embed_all(tenant.id)
    states = [(await services.entries.get(tenant.id, e.id)).embedding_status for e in entries]
    assert states == ["ready", "ready", "pending", "ready", "ready"]
    model_id = (await services.tenants.context(tenant.id)).space.model_id
    async with services.database.tenant_session(tenant.id) as session:
        assert list(await list_pending(session, model_id, None, 10)) == [], "after five tries it is left alone"


async def test_failure_of_the_provider_reaches_the_caller(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    await services.entries.create(tenant.id, EntryDraft(content="text"))
    with pytest.raises(EmbeddingUnavailable):
        await services.embedder.embed(tenant.id)


async def test_long_entry_has_several_passages_and_is_one_hit(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str
) -> None:
    content = " ".join(f"w{n}" for n in range(2_000))
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content=content, title="Long"))
    passages = failing_provider.documents
    assert len(passages) >= 4
    assert all(failing_provider.count_tokens(text) <= 512 for text in passages)
    assert all(text.startswith("Long\n\n") for text in passages)
    result = await services.search.search(
        tenant.id, SearchQuery(query=passages[2], mode="semantic", similarity_threshold=0.9)
    )
    assert [hit.id for hit in result] == [entry.id]
    assert result.metadata.total == 1
    rows = await fetch(superuser_dsn, "select passage, char_start, char_end from embeddings order by passage")
    assert [row["passage"] for row in rows] == list(range(len(passages)))
    for row, text in zip(rows, passages, strict=True):
        assert text == f"Long\n\n{content[row['char_start'] : row['char_end']]}"


def test_title_longer_than_half_the_input_is_omitted_from_passages(failing_provider: FailingProvider) -> None:
    title = " ".join("title" for _ in range(400))
    content = " ".join(f"w{n}" for n in range(600))
    passages = make_passages(failing_provider, title, content)
    assert len(passages) > 1
    assert not any("title" in text for text, _, _ in passages)
    assert all(text == content[start:end] for text, start, end in passages)


@pytest.mark.parametrize(("words", "in_loop"), [(20, True), (3_000, False)])
async def test_long_text_is_cut_outside_of_the_event_loop(
    services: Services,
    tenant: Tenant,
    failing_provider: FailingProvider,
    monkeypatch: pytest.MonkeyPatch,
    words: int,
    in_loop: bool,
) -> None:
    counting, count = set(), failing_provider.count_tokens

    def note(text: str) -> int:
        counting.add(threading.get_ident())
        return count(text)

    monkeypatch.setattr(failing_provider, "count_tokens", note, raising=False)
    await services.entries.create(tenant.id, EntryDraft(content=" ".join(f"w{n}" for n in range(words))))
    assert counting
    assert (threading.get_ident() in counting) == in_loop
