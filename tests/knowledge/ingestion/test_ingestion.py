"""From a file's bytes to rows: what is embedded and what is stored."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import Entry
from app.db.statements import parse_statement
from app.embeddings.provider import resolve_model
from app.knowledge.entries.entry import embedding_text
from app.knowledge.ingestion.pipeline import STORED_AT_ONCE, TITLE_ROOM, ChunkSize, Ingestion, chunk_tokens
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import Bench
from tests.knowledge.conftest import RunJobs

VECTORS = parse_statement(
    "vectors", "select entry_id, in_index from embeddings where tenant_id = :tenant_id and model_id = 1"
)


def section(subject: str) -> str:
    return f"# On {subject}\n\n" + f"The {subject} is described here in a sentence. " * 40


def version(*subjects: str) -> Upload:
    return Upload("a.md", "\n\n".join(map(section, subjects)).encode(), external_id="a")


async def chunks_of(services: Services, tenant: Tenant, asset_id: UUID) -> list[Entry]:
    chunks: list[Entry] = []
    cursor = None
    while True:
        page = await services.entries.list_entries(tenant.id, asset_id=asset_id, limit=100, cursor=cursor)
        chunks += page.items
        cursor = page.next_cursor
        if cursor is None:
            return sorted(chunks, key=lambda chunk: chunk.chunk_index or 0)


async def vectors_of(services: Services, tenant: Tenant) -> dict[UUID, bool]:
    async with services.database.tenant_session(tenant.id) as session:
        rows = await session.fetch(VECTORS)
    return {row["entry_id"]: row["in_index"] for row in rows}


async def test_new_version_embeds_the_changed_chunks_only(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, version("harbour", "lighthouse", "pier", "quay"))
    await run_jobs()
    before = await chunks_of(services, tenant, asset.id)
    assert failing_provider.documents == [embedding_text(c.title, c.content) for c in before]
    failing_provider.documents.clear()

    await services.assets.upload(tenant.id, version("harbour", "beacon", "pier", "quay", "mole"))
    await run_jobs()
    after = await chunks_of(services, tenant, asset.id)
    known = {chunk.content for chunk in before}
    changed = [chunk for chunk in after if chunk.content not in known]
    assert len(after) > len(changed) >= 2
    assert {c.title for c in changed} == {"On beacon", "On mole"}
    assert failing_provider.documents == [embedding_text(c.title, c.content) for c in changed]
    assert set(await vectors_of(services, tenant)) == {chunk.id for chunk in after}

    failing_provider.documents.clear()
    await services.assets.upload(tenant.id, version("quay", "harbour"))
    await run_jobs()
    assert failing_provider.documents == [], "another order changes no chunk"


async def test_overlap_is_shared_by_neighbouring_chunks(bench: Bench, services: Services, tenant: Tenant) -> None:
    sentences = [f"Berth {n} of the harbour is dredged in the year {1900 + n}." for n in range(120)]
    ingestion = Ingestion(
        services.database,
        {1: bench.provider},
        services.tenants,
        chunk_size=ChunkSize(tokens=60, overlap=20),
    )
    asset_id = await bench.upload(Upload("a.txt", " ".join(sentences).encode()))
    assert await bench.make_worker(ingestion=ingestion).run_once()
    text = await services.assets.text(tenant.id, asset_id)
    chunks = await chunks_of(services, tenant, asset_id)
    assert len(chunks) > 20
    for chunk in chunks:
        assert text[chunk.metadata["char_start"] : chunk.metadata["char_end"]] == chunk.content
        assert bench.provider.count_tokens(chunk.content) <= 60
    for early, late in pairwise(chunks):
        shared = text[late.metadata["char_start"] : early.metadata["char_end"]]
        assert 0 < bench.provider.count_tokens(shared) <= 20


def test_chunks_leave_room_for_titles_and_overlap_at_most_by_half() -> None:
    model = resolve_model("local")
    assert chunk_tokens(ChunkSize(), model) == (model.max_tokens - TITLE_ROOM, 0)
    assert chunk_tokens(ChunkSize(tokens=100, overlap=10), model) == (100, 10)
    assert chunk_tokens(ChunkSize(tokens=100, overlap=1_000), model) == (100, 50)


async def test_file_of_many_chunks_is_stored_at_once_and_its_words_are_counted_later(
    bench: Bench, services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    sentences = [f"Berth {n} of the harbour was dredged in the year {n} by hand." for n in range(1_100)]
    ingestion = Ingestion(services.database, {1: bench.provider}, services.tenants, chunk_size=ChunkSize(tokens=16))
    asset_id = await bench.upload(Upload("a.txt", " ".join(sentences).encode()))
    assert await bench.make_worker(ingestion=ingestion).run_once()
    chunks = await chunks_of(services, tenant, asset_id)
    assert len(chunks) > 2 * STORED_AT_ONCE
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.content for chunk in chunks] == sentences
    assert set(await vectors_of(services, tenant)) == {chunk.id for chunk in chunks}
    async with connected(superuser_dsn) as superuser:
        due = await superuser.fetch("select kind, run_at > clock_timestamp() as later from jobs")
    assert [tuple(job) for job in due] == [("refresh_statistics", True)]


async def test_chunks_of_an_indexed_tenant_go_into_the_index(bench: Bench, services: Services, tenant: Tenant) -> None:
    await bench.upload(version("harbour"))
    await services.worker.run_once()
    old = await vectors_of(services, tenant)
    await bench.change("update vector_statistics set index_state = 'ready'")
    await bench.upload(Upload("b.md", section("lighthouse").encode()))
    await services.worker.run_once()
    new = await vectors_of(services, tenant)
    assert old
    assert not any(new[entry_id] for entry_id in old)
    assert all(new[entry_id] for entry_id in new.keys() - old.keys())
    assert new.keys() > old.keys()


@pytest.mark.parametrize("fails", [False, True])
async def test_version_is_swapped_in_completely_or_not_at_all(
    bench: Bench, services: Services, tenant: Tenant, run_jobs: RunJobs, fails: bool
) -> None:
    """A failure between the first and the last statement of the swap leaves the old version unchanged."""
    asset_id = await bench.upload(version("harbour", "pier"))
    await run_jobs()
    before = await chunks_of(services, tenant, asset_id)
    if fails:
        await bench.change("alter table embeddings add constraint refuse check (char_end < 0) not valid")
    await bench.upload(version("harbour", "beacon"))
    await services.worker.run_once()
    after = await chunks_of(services, tenant, asset_id)
    assert (after == before) is fails
    assert set(await vectors_of(services, tenant)) == {chunk.id for chunk in after}
