"""Erasures of everything of a subject, and erasures that stop anywhere."""

from __future__ import annotations

import asyncpg
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import NewErasure
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.queries import receipts
from app.db.rows import new_id
from app.db.statements import parse_statement
from app.knowledge.erasure import ErasureWork
from tests.fixtures.database.cluster import connected
from tests.knowledge.erasure.erasing import find_marker, found, look_again, removed

pytestmark = pytest.mark.own_tenants

LEAVER = "quokka.bird@example.com"


async def fill(services: Services, tenant: Tenant) -> dict[str, str]:
    """What the subject left in the tenant, and what others did; returns ids by name."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True), actor="ada")

    async def add(content: str, actor: str) -> str:
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content=content), actor=actor)
        return str(entry.id)

    ids = {
        "own": await add("Written by the leaver", LEAVER),
        "of_others": await add("Written by another", "ada"),
    }
    await services.entries.change(
        tenant.id, (await services.entries.list_entries(tenant.id)).items[0].id, EntryDraft(tags=["x"]),
        actor=LEAVER,
    )  # fmt: skip
    own, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"The file of the leaver"), actor=LEAVER)
    other, _ = await services.assets.upload(tenant.id, Upload("b.txt", b"The file of another"), actor="ada")
    while await services.worker.run_once():
        pass
    saved, _ = await services.saved_searches.save(tenant.id, LEAVER, NewSavedSearch("mine", {"query": "leaver"}))
    await services.saved_searches.save(tenant.id, "ada", NewSavedSearch("hers", {"query": "another"}))
    await services.subscriptions.subscribe(tenant.id, LEAVER, saved.id, "https://198.51.101.7/hook")
    for subject in (LEAVER, "ada"):
        made = await services.search.search(tenant.id, SearchQuery(query="another"), subject=subject)
        await services.journal.flush()
        async with services.database.tenant_session(tenant.id) as session:
            hit = made.results[0].id
            await receipts.put_feedback(session, made.metadata.search_id, hit, subject, True, "another")
    return ids | {"own_asset": str(own.id), "other_asset": str(other.id)}


async def test_everything_of_a_subject_is_erased(services: Services, tenant: Tenant, superuser_dsn: str) -> None:
    ids = await fill(services, tenant)
    before = await find_marker(superuser_dsn, LEAVER)
    assert set(before) == {"audit", "feedback", "saved_searches", "searches", "subscriptions"}

    erasure = await services.erasures.erase(tenant.id, NewErasure(subject=LEAVER), actor="ada")

    counts = removed(erasure)
    assert {place: counts[place] for place in ("entries", "assets", "saved_searches", "subscriptions")} == {
        "entries": 2, "assets": 1, "saved_searches": 1, "subscriptions": 1,
    }  # fmt: skip
    assert counts["audit"] == before["audit"]
    assert (erasure.state, found(erasure)) == ("erased", {})
    assert set(await find_marker(superuser_dsn, LEAVER)) == {"erasures"}  # until the second look
    erasure = await look_again(services, superuser_dsn, tenant.id, erasure)
    assert (erasure.state, found(erasure)) == ("done", {})
    assert await find_marker(superuser_dsn, LEAVER) == {}
    assert [dict(d) for d in erasure.derived] == [{"relation": "changed", "kind": "entry", "id": ids["of_others"]}]
    entries = (await services.entries.list_entries(tenant.id, source="entry")).items
    assert [str(entry.id) for entry in entries] == [ids["of_others"]]
    assert [str(a.id) for a in (await services.assets.list_assets(tenant.id)).items] == [ids["other_asset"]]
    assert (await services.saved_searches.list_saved(tenant.id, "ada")).items[0].name == "hers"
    trail = (await services.administration.audit(tenant.id, limit=200)).items
    assert {row.actor for row in trail} >= {"ada", f"erased:{erasure.id}"}
    async with connected(superuser_dsn) as superuser:
        (noted,) = await superuser.fetch(
            "select subject_tenant, detail::text as detail from platform_audit where action = 'audit.pseudonymise'"
        )
    assert noted["subject_tenant"] == tenant.id
    assert f'"rows": {before["audit"]}' in noted["detail"]


async def test_imports_and_entries_older_than_the_trail_have_no_known_author(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    old, _ = await services.entries.create(tenant.id, EntryDraft(content="The old one"), actor="ada")
    await services.entries.change(tenant.id, old.id, EntryDraft(tags=["x"]), actor=LEAVER)
    aged = "update entries set created_at = created_at - interval '2 days' where tenant_id = :tenant_id"
    async with services.database.tenant_session(tenant.id) as session:
        await session.execute(parse_statement("aged", aged))
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("delete from audit where actor = 'ada' and tenant_id = $1", tenant.id)
        await superuser.execute(
            "update audit set action = 'entry.write' where tenant_id = $1 and actor = $2", tenant.id, LEAVER
        )
    erasure = await services.erasures.erase(tenant.id, NewErasure(subject=LEAVER), actor="ada")
    assert [d["relation"] for d in erasure.derived] == ["changed"]
    assert (await services.entries.get(tenant.id, old.id)).content == "The old one"


async def test_an_erasure_that_stops_after_any_step_is_finished_by_the_job(
    services: Services, tenant: Tenant, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        pass

    async def stop(self: ErasureWork, *_: object, **__: object) -> None:
        raise Stopped

    work = ErasureWork(services.database, services.jobs, services.journal)
    for steps in (1, 4, 8):
        await fill(services, tenant)
        with monkeypatch.context() as patch:
            patch.setattr(ErasureWork, "advance", stop)
            with pytest.raises(Stopped):
                await services.erasures.erase(tenant.id, NewErasure(subject=LEAVER), actor="ada")
        (erasure, *_) = (await services.erasures.list_erasures(tenant.id)).items
        assert erasure.state == "running"
        assert {place.found for place in erasure.places} == {None}
        for _ in range(steps):
            await work.advance(tenant.id, erasure.id, seconds=0)
        while (erasure := await look_again(services, superuser_dsn, tenant.id, erasure)).state != "done":
            pass
        assert removed(erasure)["assets"] == 1
        assert await find_marker(superuser_dsn, LEAVER) == {}


async def test_the_service_cannot_change_the_trail_without_an_erasure_in_progress(
    services: Services, tenant: Tenant, other_tenant: Tenant, service_dsn: str, superuser_dsn: str
) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="One"), actor=LEAVER)
    await services.entries.create(other_tenant.id, EntryDraft(content="One"), actor=LEAVER)
    ended = await services.erasures.erase(tenant.id, NewErasure(subject="other"), actor="ada")
    await look_again(services, superuser_dsn, tenant.id, ended)
    erasure = await services.erasures.erase(tenant.id, NewErasure(subject=LEAVER), actor="ada")
    async with connected(service_dsn) as service:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.fetchval("select tenancy.pseudonymise_actor($1, 100)", erasure.id)
        await service.execute(f"set app.current_tenant = '{other_tenant.id}'")
        for each in (erasure.id, ended.id, new_id(), None):
            assert await service.fetchval("select tenancy.pseudonymise_actor($1, 100)", each) == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute("update audit set actor = 'x'")
    assert await find_marker(superuser_dsn, LEAVER) == {"audit": 1, "erasures": 1}


async def test_what_comes_back_after_the_first_look_is_removed_by_the_second(
    services: Services, tenant: Tenant, superuser_dsn: str
) -> None:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="One"), actor=LEAVER)
    other, _ = await services.entries.create(tenant.id, EntryDraft(content="Two"), actor="ada")
    made = await services.search.search(tenant.id, SearchQuery(query="one two"), subject="ada")
    await services.journal.flush()
    async with connected(superuser_dsn) as superuser:
        await superuser.execute("create temporary table late as select * from searches")
        erasure = await services.erasures.erase(tenant.id, NewErasure(entry_id=entry.id), actor="ada")
        assert removed(erasure)["searches"] == 1
        await superuser.execute("delete from searches")
        await superuser.execute("insert into searches select * from late")
    done = await look_again(services, superuser_dsn, tenant.id, erasure)
    assert (done.state, removed(done)["searches"], found(done)) == ("done", 2, {})
    receipt = (await services.administration.receipt(tenant.id, made.metadata.search_id)).receipt
    assert [ranked.id for ranked in receipt.ranking] == [other.id]
