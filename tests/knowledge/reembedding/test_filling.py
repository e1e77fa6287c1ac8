"""Which entries get vectors of the new model, at what rate, and what delays the work."""

from __future__ import annotations

import asyncio
from uuid import UUID

import numpy as np
import pytest

from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.db.queries import embeddings as vectors
from app.db.queries import entries
from app.db.queries.embeddings import PassageVector
from app.errors import Conflict
from app.knowledge.entries.writing import new_entry
from tests.knowledge.reembedding.moving import NEW, OLD, Move


async def test_entries_written_and_changed_during_the_change_get_vectors_of_both_models(move: Move) -> None:
    await move.add(3)
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    service = move.services.entries
    new, _ = await service.create(move.tenant.id, EntryDraft(content="written during the change"))
    changed = (await service.list_entries(move.tenant.id)).items[-1]
    assert changed.id != new.id
    await service.change(move.tenant.id, changed.id, EntryDraft(content="changed during the change"))
    await move.services.assets.upload(move.tenant.id, Upload("a.txt", b"uploaded during the change"))
    await move.run_jobs()
    expected = {"written during the change", "changed during the change", "uploaded during the change"}
    for model in (OLD, NEW):
        assert expected < (await move.vectors(model)).keys()
        assert await move.pending(model) == 0
    assert await move.vectors(OLD) != {}
    assert (await move.vectors(OLD)).keys() == (await move.vectors(NEW)).keys()


@pytest.mark.slow
async def test_change_includes_entries_of_writers_active_at_its_start(move: Move) -> None:
    """The change waits for writers that began before it; later writers know of the change."""
    stop = asyncio.Event()

    async def keep_writing(writer: int) -> int:
        count = 0
        while not stop.is_set():
            items = [EntryDraft(content=f"writer {writer} entry {count + n}", language="english") for n in range(20)]
            await move.services.entries.create_many(move.tenant.id, items)
            count += 20
        return count

    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(keep_writing(n)) for n in range(3)]
        await asyncio.sleep(0.2)
        await move.start(switch_at_overlap=None)
        await asyncio.sleep(0.2)
        stop.set()
    await move.run_jobs()
    written = sum(writer.result() for writer in writers)
    assert len(await move.vectors(OLD)) == len(await move.vectors(NEW)) == written


async def test_change_waits_for_active_writers(move: Move) -> None:
    """The entry has the lowest id and is committed late, so later steps of the change would not find it."""
    await move.add(3)
    late = new_entry(UUID(int=1), EntryDraft(content="written by a slow transaction"))
    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with move.services.database.tenant_session(move.tenant.id) as session:
        await entries.insert_entries(session, [late])
        starting = asyncio.create_task(move.start(switch_at_overlap=None))
        async with asyncio.timeout(60):
            while not await move.sql(waits):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not starting.done()
    await starting
    await move.run_jobs()
    assert "written by a slow transaction" in await move.vectors(NEW)


@pytest.mark.slow
async def test_vectors_of_the_former_model_are_not_stored_after_the_change(move: Move) -> None:
    """As from a worker that began a file before the switch and ends after the old vectors were dropped."""
    await move.add(2)
    await move.move()
    await move.services.reembedding.end(move.tenant.id)
    await move.run_jobs()
    (entry, _) = (await move.services.entries.list_entries(move.tenant.id)).items
    await move.sql("delete from embeddings where entry_id = $1", entry.id)
    text_hash = await move.sql("select text_hash from entries where id = $1", entry.id)
    late = PassageVector(entry.id, 0, text_hash, 0, 5, np.ones(16, dtype=np.float32))
    async with move.services.database.tenant_session(move.tenant.id) as session:
        await vectors.store_vectors(session, OLD, [late])
    assert await move.vectors(OLD) == {}
    assert await move.pending(NEW) == 1
    assert await move.sql("select sum(passages) from vector_statistics") == 1
    await move.services.embedder.embed_all(move.tenant.id)
    assert len(await move.vectors(NEW)) == 2


@pytest.mark.slow
async def test_rate_limits_the_entries_per_minute(move: Move) -> None:
    await move.add(30)
    await move.start(rate=120)
    assert await move.run_job()
    assert len(await move.vectors(NEW)) == 10
    wait = await move.sql(
        "select extract(epoch from run_at - clock_timestamp())::float from jobs where kind = 'reembed'"
    )
    assert 3.0 < wait <= 5.0
    assert not await move.services.worker.run_once(), "no worker waits for the next minute"
    change = await move.start(rate=None)
    assert change.rate is None
    await move.run_jobs()
    assert (await move.status()).state == "ready"
    assert len(move.new.documents) == 30


@pytest.mark.slow
async def test_equal_and_known_texts_are_embedded_once(move: Move) -> None:
    await move.add(4)
    await move.services.assets.upload(move.tenant.id, Upload("a.txt", b"The same text"))
    await move.services.assets.upload(move.tenant.id, Upload("b.txt", b"The same text", external_id="b"))
    await move.run_jobs()
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    assert sorted(move.new.documents) == ["The same text", *(f"entry number {n}" for n in range(4))]
    assert await move.sql("select count(*) from embeddings where model_id = 2") == 6


@pytest.mark.slow
async def test_unavailable_provider_only_delays_the_work(move: Move) -> None:
    await move.add(3)
    move.new.down = True
    await move.start()
    assert await move.run_job()
    waiting = await move.sql(
        "select extract(epoch from run_at - clock_timestamp())::float from jobs where kind = 'reembed'"
    )
    assert waiting > 10
    assert await move.sql("select max(paused_until) from embedding_models") is None
    with pytest.raises(Conflict, match="not complete"):
        await move.services.reembedding.switch(move.tenant.id)
    assert (await move.search("entry number 1")).metadata.fallback_mode is False
    assert (await move.status()).failure == "mock unavailable: told to fail"
    move.new.down = False
    await move.run_jobs()
    change = await move.status()
    assert (change.state, change.failure) == ("ready", None)
