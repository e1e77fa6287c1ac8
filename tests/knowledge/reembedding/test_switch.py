"""When a tenant is switched, automatically or by its admin, and what searches find in the meantime."""

from __future__ import annotations

import asyncio

import pytest

from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import Conflict, EmbeddingUnavailable
from tests.fixtures.searching import semantic_leg_of
from tests.knowledge.reembedding.moving import EXACT_LIMIT, NEW, OLD, Move


async def test_search_uses_the_old_model_until_the_switch(move: Move) -> None:
    await move.add(10)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert (await move.status()).state == "ready"
    move.new.queries.clear()
    move.new.down = True
    result = await move.search("entry number 3")
    assert result.results[0].content == "entry number 3"
    assert result.metadata.fallback_mode is False
    assert move.new.queries == []


async def test_searches_during_the_switch_find_every_entry(move: Move) -> None:
    await move.add(25)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    found: list[str] = []
    stop = asyncio.Event()

    async def keep_searching() -> None:
        while not stop.is_set():
            result = await move.search("entry number 11")
            assert result.metadata.fallback_mode is False
            found.append(result.results[0].content)

    async def answered_again() -> None:
        before = len(found)
        async with asyncio.timeout(30):
            while len(found) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        group.create_task(keep_searching())
        for _ in range(3):
            await move.services.reembedding.switch(move.tenant.id)
            await answered_again()
            await move.services.reembedding.switch(move.tenant.id, back=True)
            await answered_again()
        stop.set()
    assert len(found) > 5
    assert set(found) == {"entry number 11"}


async def test_switch_waits_for_entries_written_a_moment_ago(move: Move) -> None:
    await move.add(3)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, EntryDraft(content="written just now"))
    assert await move.pending(NEW) == 1
    await move.services.reembedding.switch(move.tenant.id)
    assert "written just now" in await move.vectors(NEW)
    move.old.down = True
    assert (await move.search("written just now")).results[0].content == "written just now"


@pytest.mark.slow
async def test_switch_is_refused_while_its_provider_is_unavailable(move: Move) -> None:
    await move.add(1)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    await move.services.entries.create(move.tenant.id, EntryDraft(content="written just now"))
    move.new.down = True
    with pytest.raises(EmbeddingUnavailable):
        await move.services.reembedding.switch(move.tenant.id)
    assert await move.sql("select model_id from tenants") == OLD


@pytest.mark.slow
async def test_new_vectors_of_a_large_tenant_are_in_their_index_before_the_switch(move: Move) -> None:
    await move.add(EXACT_LIMIT + 20)
    assert (await move.services.administration.stats(move.tenant.id)).indexed is True
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert await move.sql("select bool_and(in_index) from embeddings where model_id = 2")
    assert await move.sql("select index_state from vector_statistics where model_id = 2") == "ready"
    await move.sql("update vector_statistics set index_state = 'building' where model_id = 2")
    with pytest.raises(Conflict, match="index"):
        await move.services.reembedding.switch(move.tenant.id)
    await move.run_jobs()
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"
    wanted = SearchQuery(query="entry number 9", mode="semantic", similarity_threshold=0, explain=True)
    result = await move.services.search.search(move.tenant.id, wanted)
    assert semantic_leg_of(result).strategy == "indexed"
    assert result.results[0].content == "entry number 9"


@pytest.mark.slow
async def test_text_that_the_new_provider_refuses_prevents_the_automatic_switch(move: Move) -> None:
    await move.add(3)
    move.new.refused = {"entry number 1"}
    await move.start()
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.refused, change.waiting) == ("ready", 1, 0)
    assert change.progress == pytest.approx(2 / 3, abs=1e-4)
    assert (await move.services.reembedding.switch(move.tenant.id)).state == "switched"
