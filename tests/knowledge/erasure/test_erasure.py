"""Erasures of entries and assets."""

from __future__ import annotations

from uuid import uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import NewErasure
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.queries import receipts
from app.errors import AssetNotFound, EntryNotFound, ErasureNotFound, InvalidInput, PartOfAsset
from app.knowledge.erasure import EXEMPT, OF_ITEMS, OF_SUBJECTS
from tests.fixtures.database.cluster import connected
from tests.knowledge.conftest import RunJobs
from tests.knowledge.erasure.erasing import find_marker, found, look_again, removed, tables_of_tenants

pytestmark = pytest.mark.own_tenants

MARKER = "quokkabird"


async def test_every_table_of_tenants_is_erased_or_exempt(tenant: Tenant, superuser_dsn: str) -> None:
    async with connected(superuser_dsn) as superuser:
        tables = await tables_of_tenants(superuser)
    covered = {*OF_ITEMS, *OF_SUBJECTS}
    assert covered | set(EXEMPT) == tables
    assert not covered & set(EXEMPT)


async def test_an_erased_entry_leaves_nothing_in_any_table(
    services: Services, tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True), actor="ada")
    other, _ = await services.entries.create(tenant.id, EntryDraft(content="The harbour opens", tags=["sea"]))
    entry, _ = await services.entries.create(
        tenant.id,
        EntryDraft(
            content=f"The {MARKER} sings at the harbour",
            title=f"About {MARKER}",
            tags=[MARKER, "sea"],
            metadata={MARKER: MARKER},
            external_id=MARKER,
        ),
    )
    searched = await services.search.search(
        tenant.id, SearchQuery(query=f"{MARKER} harbour", tags=["sea"]), subject="ada"
    )
    await services.journal.flush()
    search_id = searched.metadata.search_id
    async with services.database.tenant_session(tenant.id) as session:
        await receipts.put_feedback(session, search_id, entry.id, "ada", True, MARKER)
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into lexeme_statistics (tenant_id, lexeme, entries) values ($1, $2, 2), ($1, 'harbour', 2)",
            tenant.id,
            MARKER,
        )
    assert set(await find_marker(superuser_dsn, MARKER)) == {
        *("entries", "feedback", "lexeme_statistics", "searches", "tag_statistics"),
    }

    erasure = await services.erasures.erase(tenant.id, NewErasure(entry_id=entry.id), actor="ada")

    assert (erasure.state, erasure.kind, erasure.entry_id) == ("erased", "entry", entry.id)
    assert removed(erasure) == {
        "entries": 1,
        "embeddings": 1,
        "feedback": 1,
        "searches": 1,
        "tag_statistics": 1,
        "lexeme_statistics": 2,
    }
    assert found(erasure) == {}
    assert await find_marker(superuser_dsn, MARKER) == {}
    receipt = (await services.administration.receipt(tenant.id, search_id)).receipt
    assert [ranked.id for ranked in receipt.ranking] == [other.id]
    assert (receipt.query, dict(receipt.options)) == (None, {"limit": 10})

    done = await look_again(services, superuser_dsn, tenant.id, erasure)
    assert (done.state, removed(done), found(done)) == ("done", removed(erasure), {})
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from erasure_items") == 0
    assert (await services.entries.get(tenant.id, other.id)).content == "The harbour opens"


async def test_an_erased_asset_leaves_nothing_in_any_table(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    text = "\n\n".join(f"# {MARKER} {n}\n\nThe {MARKER} reads page {n}." for n in range(30))
    upload = Upload(f"{MARKER}.md", text.encode(), external_id=MARKER, tags=[MARKER], metadata={"a": MARKER})
    asset, _ = await services.assets.upload(tenant.id, upload, actor="ada")
    copy, _ = await services.assets.upload(tenant.id, Upload("copy.md", text.encode(), external_id="copy"), actor="ada")
    while await services.worker.run_once():
        pass
    await services.assets.delete(tenant.id, copy.id)
    chunks = (await services.entries.list_entries(tenant.id, asset_id=asset.id, limit=200)).items
    assert chunks
    (waiting, _) = await services.assets.upload(
        tenant.id, Upload("again.md", text.encode(), external_id="again"), actor="ada"
    )
    await services.search.search(tenant.id, SearchQuery(query=MARKER))

    erasure = await services.erasures.erase(tenant.id, NewErasure(asset_id=asset.id), actor="ada")

    counts = removed(erasure)
    assert (counts["entries"], counts["assets"], counts["searches"]) == (len(chunks), 1, 1)
    assert found(erasure) == {}
    assert [dict(d) for d in erasure.derived] == [{"relation": "same_bytes", "kind": "asset", "id": str(waiting.id)}]
    erasure = await services.erasures.erase(tenant.id, NewErasure(asset_id=waiting.id), actor="ada")
    assert (removed(erasure), erasure.state) == ({"assets": 1, "jobs": 1}, "erased")
    assert await find_marker(superuser_dsn, MARKER) == {}


async def test_items_that_depend_on_an_erased_entry_are_named_and_stay(services: Services, tenant: Tenant) -> None:
    async def add(content: str, **fields: object) -> str:
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content=content, **fields))  # type: ignore[arg-type]
        return str(entry.id)

    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="The origin"))
    child = await add("The child", parent_id=entry.id)
    older = await add("The older", superseded_by_id=entry.id)
    derived = await add("The derived", source_ids=[entry.id])
    copy = await add("The origin", external_id="copy")

    erasure = await services.erasures.erase(tenant.id, NewErasure(entry_id=entry.id))

    assert {(d["relation"], d["id"]) for d in erasure.derived} == {
        *(("child", child), ("superseded", older), ("derived", derived), ("same_content", copy)),
    }
    assert erasure.derived_total == 4
    assert len((await services.entries.list_entries(tenant.id)).items) == 4


async def test_only_own_items_can_be_erased(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    entry, _ = await services.entries.create(other_tenant.id, EntryDraft(content="The harbour"))
    asset, _ = await services.assets.upload(other_tenant.id, Upload("a.txt", b"The lighthouse"))
    while await services.worker.run_once():
        pass
    for unknown in (uuid4(), entry.id):
        with pytest.raises(EntryNotFound):
            await services.erasures.erase(tenant.id, NewErasure(entry_id=unknown))
    for unknown in (uuid4(), asset.id):
        with pytest.raises(AssetNotFound):
            await services.erasures.erase(tenant.id, NewErasure(asset_id=unknown))
    (chunk,) = (await services.entries.list_entries(other_tenant.id, asset_id=asset.id)).items
    with pytest.raises(PartOfAsset):
        await services.erasures.erase(other_tenant.id, NewErasure(entry_id=chunk.id))
    erasure = await services.erasures.erase(other_tenant.id, NewErasure(entry_id=entry.id))
    with pytest.raises(ErasureNotFound):
        await services.erasures.get(tenant.id, erasure.id)
    assert (await services.erasures.list_erasures(tenant.id)).items == []
    assert [e.id for e in (await services.erasures.list_erasures(other_tenant.id)).items] == [erasure.id]
    for wrong in ({}, {"entry_id": entry.id, "subject": "ada"}, {"subject": " ada"}, {"subject": "a\nb"}):
        with pytest.raises(InvalidInput) as refusal:
            await services.erasures.erase(tenant.id, NewErasure(**wrong))
        assert refusal.value.errors[0].field == ("subject" if set(wrong) == {"subject"} else "body")


async def test_an_item_that_was_only_deleted_can_be_erased(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True), actor="ada")
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content=f"The {MARKER}", tags=[MARKER]))
    await services.search.search(tenant.id, SearchQuery(query=MARKER))
    await services.entries.delete(tenant.id, entry.id)
    await services.journal.flush()
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into lexeme_statistics (tenant_id, lexeme, entries) values ($1, $2, 2)", tenant.id, MARKER
        )
    assert set(await find_marker(superuser_dsn, MARKER)) == {
        *("searches", "tag_statistics", "lexeme_statistics"),
    }
    for count in (1, 0):
        erasure = await services.erasures.erase(tenant.id, NewErasure(entry_id=entry.id))
        assert removed(erasure) == ({"searches": 1, "tag_statistics": 1} if count else {})
        await look_again(services, superuser_dsn, tenant.id, erasure)
        assert await find_marker(superuser_dsn, MARKER) == {}


async def test_an_erasure_removes_former_versions(
    services: Services, tenant: Tenant, superuser_dsn: str, run_jobs: RunJobs
) -> None:
    """Those of an entry, also of a deleted one, and of chunks that an asset had before it was replaced."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30), actor="ada")
    changed, _ = await services.entries.create(tenant.id, EntryDraft(content=f"a {MARKER}1"))
    await services.entries.change(tenant.id, changed.id, EntryDraft(content="something else"))
    deleted, _ = await services.entries.create(tenant.id, EntryDraft(content=f"a {MARKER}2"))
    await services.entries.delete(tenant.id, deleted.id)
    for text in (f"a {MARKER}3", f"another {MARKER}3"):
        asset, _ = await services.assets.upload(tenant.id, Upload("a.md", text.encode(), external_id="a"))
        await run_jobs()
    assert "former_entries" in await find_marker(superuser_dsn, MARKER)
    erased = [
        await services.erasures.erase(tenant.id, NewErasure(entry_id=changed.id), actor="ada"),
        await services.erasures.erase(tenant.id, NewErasure(entry_id=deleted.id), actor="ada"),
        await services.erasures.erase(tenant.id, NewErasure(asset_id=asset.id), actor="ada"),
    ]
    assert [removed(erasure)["former_entries"] for erasure in erased] == [1, 1, 1]
    assert all(removed(erasure)["former_embeddings"] for erasure in erased)
    assert await find_marker(superuser_dsn, MARKER) == {}
    assert [found(erasure) for erasure in erased] == [{}, {}, {}]
