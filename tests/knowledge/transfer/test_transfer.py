"""Export and restoration of a tenant: nothing is lost or added, at constant memory."""

import tracemalloc
from collections.abc import Iterator

import asyncpg
import orjson
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.settings import SettingsPatch
from app.errors import InvalidInput
from app.knowledge.transfer.records import TextLine
from app.knowledge.transfer.tenant import TenantExport, read_header
from tests.fixtures.database.cluster import execute, fetch
from tests.knowledge.conftest import RunJobs
from tests.knowledge.transfer.packing import COUNTED, TABLES, export, restoration_of, restore, rows


async def test_round_trip_is_exact(services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str) -> None:
    lines = await export(services, full)
    outcome = await restore(services, other_tenant, lines)
    assert (outcome.failed, outcome.failures, outcome.dropped_references) == (0, [], 0)
    assert (await export(services, other_tenant))[1:] == lines[1:]
    for table in TABLES:
        before = await rows(superuser_dsn, table, full)
        assert before, table
        assert await rows(superuser_dsn, table, other_tenant) == before, table
    vectors = "entry_id, model_id, passage, text_hash, char_start, char_end, embedding"
    assert await rows(superuser_dsn, "embeddings", other_tenant, vectors) == await rows(
        superuser_dsn, "embeddings", full, vectors
    )
    waiting = await rows(superuser_dsn, "pending_embeddings", full, "entry_id, model_id")
    assert len(waiting) == 1
    assert await rows(superuser_dsn, "pending_embeddings", other_tenant, "entry_id, model_id") == waiting
    for table in COUNTED:
        columns = "language, entries, characters" if table == "corpus_statistics" else "*"
        kept = [r for r in await rows(superuser_dsn, table, full, columns) if '"entries": 0' not in r]
        assert await rows(superuser_dsn, table, other_tenant, columns) == kept, table
    first, second = [await services.tenants.read_settings(t.id) for t in (full, other_tenant)]
    assert first == second


@pytest.mark.slow
async def test_restoring_again_changes_nothing(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    lines = await export(services, full)
    first = await restore(services, other_tenant, lines)
    versions = await rows(superuser_dsn, "entries", other_tenant, "id, xmin::text")
    trail = await rows(superuser_dsn, "audit", other_tenant)
    again = await restore(services, other_tenant, lines)
    (noted,) = set(await rows(superuser_dsn, "audit", other_tenant)) - set(trail)
    assert orjson.loads(noted)["detail"] == {"part": "end", **again.counts()}
    assert (again.created, again.updated, again.assets, again.failed) == (0, 0, 0, 0)
    assert again.unchanged == first.created
    assert await rows(superuser_dsn, "entries", other_tenant, "id, xmin::text") == versions
    assert await restore(services, full, lines) == again, "into the tenant itself neither"


async def test_interrupted_restoration_resumes_where_it_stopped(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    lines = await export(services, full)
    for share in (0.2, 0.5, 0.7, 0.9):
        partial = await restore(services, other_tenant, lines[: int(len(lines) * share)])
        assert "truncated" in partial.failures[-1].error
    outcome = await restore(services, other_tenant, lines)
    assert outcome.failed == 0
    assert outcome.unchanged > 0
    assert (await export(services, other_tenant))[1:] == lines[1:]


@pytest.mark.slow
async def test_restoration_reverts_later_changes(services: Services, full: Tenant) -> None:
    lines = await export(services, full)
    texts = (await services.entries.list_entries(full.id, entry_type="fact")).items
    await services.entries.change(full.id, texts[0].id, EntryDraft(content="changed", tags=["new"]))
    await services.entries.change(full.id, texts[1].id, EntryDraft(parent_id=texts[0].id))
    await services.entries.delete(full.id, texts[2].id)
    asset = (await services.assets.list_assets(full.id, status="indexed")).items[0]
    await services.assets.delete(full.id, asset.id)
    await services.tenants.change_settings(full.id, SettingsPatch(fusion="rrf"), actor="test")
    assert (await restore(services, full, lines)).failed == 0
    restored = await export(services, full)
    records = [line for line in lines if b'"kind":"feedback"' not in line]
    assert [line for line in restored if b'"kind":"feedback"' not in line] == records


@pytest.mark.slow
async def test_entries_restored_without_vectors_get_equal_vectors_later(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    await run_jobs()
    lines = await export(services, full, with_vectors=False)
    assert not any(b'"vectors": [' in line for line in lines)
    await restore(services, other_tenant, lines)
    assert await rows(superuser_dsn, "embeddings", other_tenant) == []
    await run_jobs()
    vectors = "entry_id, model_id, passage, text_hash, char_start, char_end, embedding"
    assert await rows(superuser_dsn, "embeddings", other_tenant, vectors) == await rows(
        superuser_dsn, "embeddings", full, vectors
    )


@pytest.mark.slow
async def test_vectors_of_another_model_are_not_restored(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    header, *lines = await export(services, full)
    foreign = orjson.loads(header)
    foreign["model"]["name"] = "another-model"
    await restore(services, other_tenant, [orjson.dumps(foreign), *lines])
    assert await rows(superuser_dsn, "embeddings", other_tenant) == []
    assert len(await rows(superuser_dsn, "pending_embeddings", other_tenant)) == len(
        await rows(superuser_dsn, "entries", other_tenant)
    )


@pytest.mark.slow
async def test_asset_that_was_still_waiting_is_ingested_after_the_restoration(
    services: Services, tenant: Tenant, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    asset, _ = await services.assets.upload(tenant.id, Upload("a.md", b"# Harbour\n\nBoats lie here."))
    await restore(services, other_tenant, await export(services, tenant))
    assert (await services.assets.get(other_tenant.id, asset.id)).status == "pending"
    await run_jobs()
    restored = await services.assets.get(other_tenant.id, asset.id)
    assert (restored.status, restored.chunks) == ("indexed", 1)


async def test_numbers_beyond_64_bits_are_restored(
    services: Services, tenant: Tenant, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    numbers = {"a": 1.9e19, "b": -1e22, "c": 0.1}
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="parent", metadata=numbers))
    asset, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"the asset", metadata=numbers))
    await run_jobs()
    outcome = await restore(services, other_tenant, await export(services, tenant))
    assert (outcome.failed, outcome.failures) == (0, [])
    assert (await services.entries.get(other_tenant.id, entry.id)).metadata == numbers
    assert (await services.assets.get(other_tenant.id, asset.id)).metadata == numbers


async def test_existing_objects_keep_their_ids_and_references_are_adapted(
    services: Services, tenant: Tenant, other_tenant: Tenant, run_jobs: RunJobs
) -> None:
    create = services.entries.create
    parent, _ = await create(tenant.id, EntryDraft(content="parent", external_id="p", tags=["new"]))
    source, _ = await create(tenant.id, EntryDraft(content="source"))
    child, _ = await create(
        tenant.id, EntryDraft(content="child", parent_id=parent.id, source_ids=[source.id, parent.id])
    )
    await services.assets.upload(tenant.id, Upload("a.txt", b"the asset"))
    there, _ = await create(other_tenant.id, EntryDraft(content="parent, older", external_id="p"))
    there_too, _ = await create(other_tenant.id, EntryDraft(content="source"))
    asset, _ = await services.assets.upload(other_tenant.id, Upload("b.txt", b"the asset"))
    await run_jobs()
    outcome = await restore(services, other_tenant, await export(services, tenant))
    assert (outcome.created, outcome.failed, outcome.dropped_references) == (2, 0, 0)
    restored = await services.entries.get(other_tenant.id, child.id)
    assert restored.parent_id == there.id
    assert list(restored.source_ids) == [there_too.id, there.id]
    updated = await services.entries.get(other_tenant.id, there.id)
    assert (updated.content, updated.tags) == ("parent", ["new"])
    (chunk,) = (await services.entries.list_entries(other_tenant.id, entry_type="chunk")).items
    assert (chunk.asset_id, chunk.asset_name) == (asset.id, "a.txt")


async def test_refused_lines_are_reported_and_the_others_written(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await services.entries.create_many(tenant.id, [EntryDraft(content=f"text {n}") for n in range(4)])
    await services.assets.upload(tenant.id, Upload("a.txt", b"the asset"))
    header, asset, original, *entries, end = await export(services, tenant)
    bad = [
        *(entries[0].replace(b'"scope": "global"', b'"scope": "universe"'), b"{broken\n", b"[1]\n"),
        *(entries[1].replace(b'"confidence": 1', b'"confidence": "much"'), entries[2], entries[3]),
    ]
    wrong_bytes = original.replace(b'"data":"', b'"data":"AAAA')
    outcome = await restore(services, other_tenant, [header, asset, wrong_bytes, *bad, end])
    assert (outcome.created, outcome.failed, outcome.assets) == (2, 5, 0)
    assert {f.line: f.error for f in outcome.failures} == {
        2: "the bytes differ from the exported ones",
        4: "breaks a rule of the table: entries_scope_check",
        5: "is not a line of an export",
        6: "is not a line of an export",
        7: "has a field that cannot be read",
    }


async def test_a_line_that_is_too_long_is_refused_with_its_reason(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="text"))
    header, entry, end = await export(services, tenant)
    restoration = restoration_of(services, other_tenant)
    given = [TextLine(2, error="is longer than 10 bytes"), TextLine(3, entry), TextLine(4, end)]
    await restoration.write(read_header(header) or {}, given, lambda _: None)
    await restoration.link(given, lambda _: None)
    assert (restoration.outcome.created, restoration.outcome.failed) == (1, 1)
    assert restoration.outcome.reasons == {"is longer than 10 bytes": 1}


async def test_export_of_another_version_is_refused(services: Services, tenant: Tenant) -> None:
    with pytest.raises(InvalidInput, match="another version"):
        await restore(services, tenant, [b'{"kind":"tenant","format":99}\n'])


async def test_line_cannot_choose_its_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="mine"))
    lines = await export(services, tenant)
    victim = str(tenant.id).encode()
    named = [line.replace(b'{"kind"', b'{"tenant_id":"' + victim + b'","kind"') for line in lines[1:]]
    before = await rows(superuser_dsn, "entries", tenant)
    await restore(services, other_tenant, [lines[0], *(line.replace(b"mine", b"theirs") for line in named)])
    assert await rows(superuser_dsn, "entries", tenant) == before
    assert len(await rows(superuser_dsn, "entries", other_tenant)) == 1


@pytest.mark.slow
async def test_memory_of_export_and_restoration_does_not_grow_with_the_entries(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    """By Python's peak allocation: a list of the lines would need four times as much."""
    peaks: list[tuple[int, int]] = []
    written = 0
    for count in (600, 2_400):
        for start in range(written, count, 600):
            items: list[EntryDraft] = [
                EntryDraft(content=f"{n} " + "x" * 4_000, language="simple") for n in range(start, start + 600)
            ]
            await services.entries.create_many(tenant.id, items)
        written = count
        size = 0
        tracemalloc.start()
        async for _, line in TenantExport(services.database).lines(tenant.id):
            size += len(line)
        exported = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size > count * 4_000
        lines = await export(services, tenant, with_vectors=False)
        tracemalloc.start()
        await restore(services, other_tenant, lines)
        restored = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        peaks.append((exported, restored))
    (small_export, small_restore), (large_export, large_restore) = peaks
    assert large_export < 1.5 * small_export
    assert large_restore < 1.5 * small_restore


def test_header_is_distinguished_from_other_lines() -> None:
    assert read_header(b'{"kind":"tenant","format":1}\n') == {"kind": "tenant", "format": 1}
    for line in (b"", b"[]", b'{"_id": "1"}', b'{"content": "x"}', b"broken"):
        assert read_header(line) is None


class StopEarly(Exception):
    """The reader of the lines has disconnected."""


UNNOTED = """
select 'settings' as what, t.id::text from tenants t
 where t.id = $1 and t.settings <> '{}' and not exists (
   select from audit a where a.tenant_id = t.id and a.xmin = t.xmin and a.detail ->> 'part' = 'settings')
union all
select x.what, x.ids::text
  from (select 'asset' as what, xmin as written, array[id] as ids from assets where tenant_id = $1
        union all select 'entry', xmin, array[id] from entries where tenant_id = $1
        union all select 'accesses', xmin, array[entry_id] from access_counts where tenant_id = $1
        union all select 'saved search', xmin, array[id] from saved_searches where tenant_id = $1
        union all select 'feedback', xmin, array[search_id, entry_id] from feedback where tenant_id = $1) x
 where not exists (
   select from audit a where a.tenant_id = $1 and a.xmin = x.written and a.action = 'tenant.import'
      and a.actor = 'test' and a.subject_ids @> x.ids)
"""
"""Written rows that no audit row of the same transaction names."""


async def test_restoration_stopped_anywhere_has_audited_all_its_changes(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    lines = await export(services, full)

    async def find_unnoted() -> list[tuple[str, str]]:
        return [tuple(row) for row in await fetch(superuser_dsn, UNNOTED, other_tenant.id)]

    restoration = restoration_of(services, other_tenant)
    header = read_header(lines[0])
    assert header is not None

    def broken() -> Iterator[TextLine]:
        yield from (TextLine(number, line) for number, line in enumerate(lines[1:-4], 2))
        raise StopEarly

    with pytest.raises(StopEarly):
        await restoration.write(header, broken(), lambda _: None)
    assert await rows(superuser_dsn, "assets", other_tenant)
    assert await find_unnoted() == []
    before = await rows(superuser_dsn, "entries", other_tenant, "id, xmin::text")
    assert (await restore(services, other_tenant, lines)).failed == 0
    assert await rows(superuser_dsn, "entries", other_tenant, "id, xmin::text") != before
    for table in TABLES:
        assert await rows(superuser_dsn, table, other_tenant), table
    assert await find_unnoted() == []


@pytest.mark.slow
async def test_restoration_that_cannot_be_audited_changes_nothing(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    header, *lines = await export(services, full)
    without_settings = orjson.dumps({**orjson.loads(header), "settings": {}})
    before = {table: await rows(superuser_dsn, table, other_tenant) for table in (*TABLES, *COUNTED)}
    settings = await services.tenants.read_settings(other_tenant.id)
    await execute(superuser_dsn, "alter table audit add constraint full_up check (actor <> 'test') not valid")
    for first in (header, without_settings):
        with pytest.raises(asyncpg.CheckViolationError):
            await restore(services, other_tenant, [first, *lines])
    assert {table: await rows(superuser_dsn, table, other_tenant) for table in before} == before
    assert await services.tenants.read_settings(other_tenant.id) == settings
