"""Erasures of assets, entries and subjects, which leave a marker in no table."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import Erasure, NewErasure
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.queries import receipts
from app.db.rows import new_id
from app.db.statements import parse_statement
from app.errors import AssetNotFound, EntryNotFound, ErasureNotFound, InvalidInput, PartOfAsset
from app.knowledge.erasure import OF_ITEMS, OF_SUBJECTS, ErasureService
from tests.fixtures.database.cluster import Connection, connected
from tests.fixtures.workers import run_due
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants


TABLES = """
select c.oid::regclass::text as name, a.attname is not null as of_tenant
  from pg_class c
  left join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1
"""


async def tables_of_tenants(connection: Connection) -> set[str]:
    """The tables that have a tenant_id."""
    return {row["name"] for row in await connection.fetch(TABLES) if row["of_tenant"]}


async def find_marker(dsn: str, marker: str) -> dict[str, int]:
    """How many rows of each table contain a text, in any column, also as bytes."""
    found = {}
    async with connected(dsn) as superuser:
        for table in await superuser.fetch(TABLES):
            rows = await superuser.fetchval(
                f"select count(*) from {table['name']} t where strpos(lower(t::text), lower($1)) > 0"
                " or strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0",
                marker,
            )
            if rows:
                found[table["name"]] = rows
    return found


async def look_again(services: Services, dsn: str, tenant_id: UUID, erasure: Erasure) -> Erasure:
    """Run the jobs of erasures now, and return the receipt after them."""
    async with connected(dsn) as superuser:
        await superuser.execute("update jobs set run_at = now() where kind = 'erase'")
    await run_due(services.worker)
    return await services.erasures.get(tenant_id, erasure.id)


def removed(erasure: Erasure) -> Mapping[str, int]:
    """The places where something was removed."""
    return {place.place: place.removed for place in erasure.places if place.removed}


def found(erasure: Erasure) -> Mapping[str, Any]:
    """The places where the last look found something, or that it did not look at."""
    return {place.place: place.found for place in erasure.places if place.found != 0}


MARKER = "quokkabird"

EXEMPT = {
    "corpus_statistics": "numbers of entries and characters by language and reader, which the removal lowers",
    "vector_statistics": "numbers of vectors, which the removal lowers",
    "asset_statistics": "the number of bytes of all files, which the removal lowers",
    "usage_by_day": "numbers of tokens by day",
    "model_changes": "numbers and the state of a model change",
    "api_keys": "names and hashes of keys of programs; an admin revokes them",
    "revoked_tokens": "ids of tokens (jti), which name no subject",
    "kept_versions": "a time",
    "permissions": "a time",
    "sources": "names and origins of sources, with numbers and times of their runs",
    "erasure_items": "ids of the erasure itself, removed at its end",
}
"""Tables from which nothing is removed, with the reason."""


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
        *("entries", "feedback", "lexeme_statistics", "searches", "tag_statistics")
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
    await run_due(services.worker)
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
        *(("child", child), ("superseded", older), ("derived", derived), ("same_content", copy))
    }
    assert erasure.derived_total == 4
    assert len((await services.entries.list_entries(tenant.id)).items) == 4


async def test_only_own_items_can_be_erased(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    entry, _ = await services.entries.create(other_tenant.id, EntryDraft(content="The harbour"))
    asset, _ = await services.assets.upload(other_tenant.id, Upload("a.txt", b"The lighthouse"))
    await run_due(services.worker)
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
    assert set(await find_marker(superuser_dsn, MARKER)) == {*("searches", "tag_statistics", "lexeme_statistics")}
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


LEAVER = "quokka.bird@example.com"


async def add(services: Services, tenant: Tenant, content: str, actor: str = "ada", **fields: object) -> UUID:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content=content, **fields), actor=actor)  # type: ignore[arg-type]
    return entry.id


async def change(services: Services, tenant: Tenant, entry_id: UUID, actor: str, **fields: object) -> None:
    await services.entries.change(tenant.id, entry_id, EntryDraft(**fields), actor=actor)  # type: ignore[arg-type]


def named(erasure: Erasure) -> list[tuple[object, ...]]:
    """The relation, kind, id and version of each item named for decision."""
    fields = ("relation", "kind", "id", "version")
    return sorted(tuple(dict(each)[name] for name in fields if name in each) for each in erasure.derived)


@pytest.fixture
async def keeper(services: Services, tenant: Tenant) -> Tenant:
    """A tenant that keeps former versions."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30))
    return tenant


async def test_former_versions_with_words_of_a_subject_are_named(services: Services, keeper: Tenant) -> None:
    """Those after the subject's change, as long as its words may be in them; not those before."""
    kept = await add(services, keeper, "Written by ada")
    await change(services, keeper, kept, LEAVER, content="The address of the leaver")
    await change(services, keeper, kept, "ada", tags=["x"])
    await change(services, keeper, kept, "ada", content="Written by ada again")
    gone = await add(services, keeper, "Also written by ada")
    await change(services, keeper, gone, LEAVER, content="The telephone of the leaver")
    await services.entries.delete(keeper.id, gone)
    await change(services, keeper, await add(services, keeper, "By another"), "ada", content="As before")

    erasure = await services.erasures.erase(keeper.id, NewErasure(subject=LEAVER), actor="ada")

    assert named(erasure) == sorted(
        [
            ("changed", "entry", str(kept)),
            *(("changed", "entry_version", str(kept), version) for version in (2, 3)),
            ("changed", "entry_version", str(gone), 2),
        ]
    )
    assert erasure.derived_total == 4
    for entry_id, version in ((kept, 2), (kept, 3), (gone, 2)):
        versions = (await services.versions.list_versions(keeper.id, entry_id)).items
        assert [v for v in versions if v.version == version and "leaver" in v.content]
    assert "former_entries" in [each.place for each in erasure.remains]


async def test_former_versions_of_a_file_are_named_by_its_asset(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    for actor, text in (("ada", b"By ada"), (LEAVER, b"By the leaver"), ("ada", b"By ada again")):
        asset, _ = await services.assets.upload(keeper.id, Upload("a.txt", text, external_id="a"), actor=actor)
        await run_jobs()
    erasure = await services.erasures.erase(keeper.id, NewErasure(subject=LEAVER), actor="ada")
    assert named(erasure) == [("changed", "asset", str(asset.id)), ("changed", "asset_versions", str(asset.id))]


async def test_former_copies_of_an_erased_text_are_named(services: Services, keeper: Tenant) -> None:
    """Copies in former versions of others, and copies of what the erased entry said before."""
    entry = await add(services, keeper, "The origin", external_id="origin")
    copy = await add(services, keeper, "The origin", external_id="copy")
    derived = await add(services, keeper, "The derived", source_ids=[entry])
    await change(services, keeper, copy, "ada", content="Something else")
    await change(services, keeper, derived, "ada", content="Something of its own", source_ids=[])
    await change(services, keeper, entry, "ada", content="The origin today")
    today = await add(services, keeper, "The origin", external_id="later")

    erasure = await services.erasures.erase(keeper.id, NewErasure(entry_id=entry), actor="ada")

    assert named(erasure) == sorted(
        [
            ("derived", "entry_version", str(derived), 1),
            ("same_content", "entry", str(today)),
            ("same_content", "entry_version", str(copy), 1),
        ]
    )
    assert (await services.versions.list_versions(keeper.id, copy)).items[0].content == "The origin"


async def test_former_versions_of_another_tenant_are_not_named(
    services: Services, keeper: Tenant, other_tenant: Tenant
) -> None:
    await services.tenants.change_settings(other_tenant.id, SettingsPatch(keep_versions_days=30))
    theirs = await add(services, other_tenant, "The origin", LEAVER)
    await change(services, other_tenant, theirs, "ada", content="Something else")
    entry = await add(services, keeper, "The origin")
    for erasure in (
        await services.erasures.erase(keeper.id, NewErasure(entry_id=entry), actor="ada"),
        await services.erasures.erase(keeper.id, NewErasure(subject=LEAVER), actor="ada"),
    ):
        assert (named(erasure), erasure.derived_total) == ([], 0)


async def fill(services: Services, tenant: Tenant) -> dict[str, str]:
    """What the subject left in the tenant, and what others did; returns ids by name."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True), actor="ada")

    async def add(content: str, actor: str) -> str:
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content=content), actor=actor)
        return str(entry.id)

    ids = {"own": await add("Written by the leaver", LEAVER), "of_others": await add("Written by another", "ada")}
    await services.entries.change(
        tenant.id, (await services.entries.list_entries(tenant.id)).items[0].id, EntryDraft(tags=["x"]),
        actor=LEAVER,
    )  # fmt: skip
    own, _ = await services.assets.upload(tenant.id, Upload("a.txt", b"The file of the leaver"), actor=LEAVER)
    other, _ = await services.assets.upload(tenant.id, Upload("b.txt", b"The file of another"), actor="ada")
    await run_due(services.worker)
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

    async def stop(self: ErasureService, *_: object, **__: object) -> None:
        raise Stopped

    for steps in (1, 4, 8):
        await fill(services, tenant)
        with monkeypatch.context() as patch:
            patch.setattr(ErasureService, "advance", stop)
            with pytest.raises(Stopped):
                await services.erasures.erase(tenant.id, NewErasure(subject=LEAVER), actor="ada")
        (erasure, *_) = (await services.erasures.list_erasures(tenant.id)).items
        assert erasure.state == "running"
        assert {place.found for place in erasure.places} == {None}
        for _ in range(steps):
            await services.erasures.advance(tenant.id, erasure.id, seconds=0)
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
