"""Entries: written, read, in bulk."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.errors import Conflict, EntryNotFound, InvalidInput, PreconditionFailed
from tests.fixtures.database.cluster import connected
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.writing import count

pytestmark = pytest.mark.own_tenants


async def test_created_entry_has_the_given_values_and_the_defaults(services: Services, tenant: Tenant) -> None:
    entry, new = await services.entries.create(tenant.id, EntryDraft(content="The harbour closes at dusk."))
    assert new
    assert (entry.entry_type, entry.title, entry.tags, entry.roles) == ("fact", None, [], ["all"])
    assert (entry.confidence, entry.scope, entry.is_verified, entry.version) == (1.0, "global", False, 1)
    assert entry.language == "english"
    assert entry.embedding_status == "ready"
    assert await services.entries.get(tenant.id, entry.id) == entry


async def test_same_external_id_changes_the_fields_that_differ(services: Services, tenant: Tenant) -> None:
    values = EntryDraft(content="one", external_id="e", tags=["a"], title="kept")
    first, new = await services.entries.create(tenant.id, values)
    again, new_again = await services.entries.create(tenant.id, values)
    assert (new, new_again) == (True, False)
    assert again == first
    changed, created = await services.entries.create(tenant.id, EntryDraft(content="two", external_id="e"))
    assert not created
    assert (changed.id, changed.content, changed.version) == (first.id, "two", 2)
    assert (changed.title, changed.tags) == ("kept", ["a"]), "what is not given stays"
    assert changed.updated_at > first.updated_at
    assert changed.created_at == first.created_at
    assert await count(services, tenant) == 1


async def test_same_content_is_the_same_entry(services: Services, tenant: Tenant) -> None:
    first, _ = await services.entries.create(tenant.id, EntryDraft(content="one"))
    again, new = await services.entries.create(tenant.id, EntryDraft(content="one", tags=["b"]))
    assert not new
    assert (again.id, again.tags, again.version) == (first.id, ["b"], 2)
    named, _ = await services.entries.create(tenant.id, EntryDraft(content="named", external_id="n"))
    found, new = await services.entries.create(tenant.id, EntryDraft(content="named"))
    assert not new
    assert (found.id, found.external_id) == (named.id, "n")
    found, new = await services.entries.create(tenant.id, EntryDraft(content="named", external_id=None))
    assert (found.id, found.external_id, new) == (named.id, "n", False), "None names no entry and removes no name"


async def test_known_external_id_keeps_omitted_fields_and_none_clears_them(services: Services, tenant: Tenant) -> None:
    there, _ = await services.entries.create(tenant.id, EntryDraft(content="there"))
    full = EntryDraft(
        content="The harbour closes at dusk",
        external_id="e",
        entry_type="decision",
        title="Dusk",
        tags=["a"],
        roles=["dev"],
        confidence=0.5,
        scope="project",
        parent_id=there.id,
        source_ids=[there.id],
        superseded_by_id=there.id,
        metadata={"a": 1},
        language="german",
        expires_at=datetime(2090, 1, 1, tzinfo=UTC),
        is_verified=True,
    )
    first, _ = await services.entries.create(tenant.id, full)
    only = EntryDraft(content="The harbour closes at dusk", external_id="e")
    assert await services.entries.create(tenant.id, only) == (first, False)
    assert [r.status for r in await services.entries.create_many(tenant.id, [only])] == ["unchanged"]
    cleared = replace(only, title=None, parent_id=None, superseded_by_id=None, expires_at=None, language=None)
    second, _ = await services.entries.create(tenant.id, cleared)
    assert (second.title, second.parent_id, second.superseded_by_id, second.expires_at) == (None,) * 4
    assert second.language == "english"
    assert (second.tags, second.is_verified, second.entry_type) == (["a"], True, "decision")


async def test_same_content_under_two_external_ids_is_two_entries(services: Services, tenant: Tenant) -> None:
    one, _ = await services.entries.create(tenant.id, EntryDraft(content="twin", external_id="1"))
    two, new = await services.entries.create(tenant.id, EntryDraft(content="twin", external_id="2"))
    assert new
    assert one.id != two.id


async def test_two_tenants_do_not_share_external_ids_or_content(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    own, _ = await services.entries.create(tenant.id, EntryDraft(content="same", external_id="e"))
    foreign, new = await services.entries.create(other_tenant.id, EntryDraft(content="same", external_id="e"))
    assert new
    assert own.id != foreign.id
    for act in (
        services.entries.get(tenant.id, foreign.id),
        services.entries.change(tenant.id, foreign.id, EntryDraft(title="mine")),
        services.entries.delete(tenant.id, foreign.id),
    ):
        with pytest.raises(EntryNotFound):
            await act
    assert (await services.entries.get(other_tenant.id, foreign.id)) == foreign


async def test_change_affects_only_the_given_fields(services: Services, tenant: Tenant) -> None:
    first, _ = await services.entries.create(tenant.id, EntryDraft(content="one", title="T", tags=["a"]))
    changed = await services.entries.change(tenant.id, first.id, EntryDraft(tags=["b"], title=None))
    assert (changed.content, changed.title, changed.tags, changed.version) == ("one", None, ["b"], 2)
    same = await services.entries.change(tenant.id, first.id, EntryDraft(tags=["b"]))
    assert same == changed, "nothing differs: no new version"


async def test_changed_entry_keeps_its_id_and_is_found_by_its_new_text(services: Services, tenant: Tenant) -> None:
    first, _ = await services.entries.create(tenant.id, EntryDraft(content="The harbour", external_id="e"))
    changed = await services.entries.change(tenant.id, first.id, EntryDraft(content="The lighthouse", title="T"))
    written, new = await services.entries.create(tenant.id, EntryDraft(content="The beacon", external_id="e"))
    (bulk,) = await services.entries.create_many(tenant.id, [EntryDraft(content="The mole", external_id="e")])
    assert (changed.id, written.id, bulk.id, new) == (first.id, first.id, first.id, False)
    for word, found in (("harbour", []), ("lighthouse", []), ("beacon", []), ("mole", [first.id])):
        result = await services.search.search(tenant.id, SearchQuery(query=word, mode="keyword"))
        assert [hit.id for hit in result] == found, word
    assert await count(services, tenant) == 1


async def test_change_of_a_stale_version_is_refused(services: Services, tenant: Tenant) -> None:
    first, _ = await services.entries.create(tenant.id, EntryDraft(content="one"))
    second = await services.entries.change(tenant.id, first.id, EntryDraft(content="two"), if_version=1)
    with pytest.raises(PreconditionFailed):
        await services.entries.change(tenant.id, first.id, EntryDraft(content="three"), if_version=1)
    with pytest.raises(PreconditionFailed):
        await services.entries.delete(tenant.id, first.id, if_version=1)
    assert await services.entries.get(tenant.id, first.id) == second
    await services.entries.delete(tenant.id, first.id, if_version=2)
    with pytest.raises(EntryNotFound):
        await services.entries.get(tenant.id, first.id)


async def test_of_two_changes_of_one_version_one_wins(services: Services, tenant: Tenant) -> None:
    first, _ = await services.entries.create(tenant.id, EntryDraft(content="one"))
    outcomes = await asyncio.gather(
        *(services.entries.change(tenant.id, first.id, EntryDraft(content=f"by {n}"), if_version=1) for n in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(o, PreconditionFailed) for o in outcomes) == 4


async def test_change_into_another_entrys_key_is_a_conflict(services: Services, tenant: Tenant) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="one"))
    await services.entries.create(tenant.id, EntryDraft(content="named", external_id="n"))
    two, _ = await services.entries.create(tenant.id, EntryDraft(content="two"))
    for values in (EntryDraft(content="one"), EntryDraft(external_id="n")):
        with pytest.raises(Conflict):
            await services.entries.change(tenant.id, two.id, values)
    assert await services.entries.get(tenant.id, two.id) == two


async def test_concurrent_creates_of_the_same_entry_create_one(services: Services, tenant: Tenant) -> None:
    made = await asyncio.gather(
        *(services.entries.create(tenant.id, EntryDraft(content="once", external_id="e")) for _ in range(5)),
        *(services.entries.create(tenant.id, EntryDraft(content="by content")) for _ in range(5)),
    )
    assert len({entry.id for entry, _ in made}) == 2
    assert sum(new for _, new in made) == 2
    assert await count(services, tenant) == 2


async def test_references_must_be_entries_of_the_tenant(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    foreign, _ = await services.entries.create(other_tenant.id, EntryDraft(content="foreign"))
    own, _ = await services.entries.create(tenant.id, EntryDraft(content="own"))

    for field in ("parent_id", "superseded_by_id", "source_ids"):
        for missing in (foreign.id, uuid4()):
            reference: dict[str, Any] = {field: [missing] if field == "source_ids" else missing}
            with pytest.raises(InvalidInput, match=f"{field}: there is no entry with this id"):
                await services.entries.create(tenant.id, EntryDraft(content="new", **reference))
            with pytest.raises(InvalidInput, match=f"{field}: there is no entry with this id"):
                await services.entries.change(tenant.id, own.id, EntryDraft(**reference))
            (result,) = await services.entries.create_many(tenant.id, [EntryDraft(content="new", **reference)])
            assert (result.status, result.error) == ("failed", f"{field}: there is no entry with this id")
        itself: dict[str, Any] = {field: [own.id] if field == "source_ids" else own.id}
        with pytest.raises(InvalidInput, match=f"{field}: must be another entry"):
            await services.entries.change(tenant.id, own.id, EntryDraft(**itself))
    assert await count(services, tenant) == 1


async def test_deleted_entry_is_removed_from_search_and_references(services: Services, tenant: Tenant) -> None:
    parent, _ = await services.entries.create(tenant.id, EntryDraft(content="lighthouse"))
    child, _ = await services.entries.create(
        tenant.id, EntryDraft(content="lamp", parent_id=parent.id, superseded_by_id=parent.id)
    )
    await services.entries.delete(tenant.id, parent.id)
    orphan = await services.entries.get(tenant.id, child.id)
    assert (orphan.parent_id, orphan.superseded_by_id) == (None, None)
    found = await services.search.search(tenant.id, SearchQuery(query="lighthouse", mode="keyword"))
    assert len(found) == 0
    with pytest.raises(EntryNotFound):
        await services.entries.delete(tenant.id, parent.id)


async def test_writes_are_audited_without_content(services: Services, tenant: Tenant) -> None:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="secret words"), actor="anna")
    await services.entries.change(tenant.id, entry.id, EntryDraft(title="secret title"), actor="ben")
    await services.entries.delete(tenant.id, entry.id, actor="cleo")
    page = await services.administration.audit(tenant.id)
    assert [(r.actor, r.action, r.subject_ids) for r in page.items] == [
        ("cleo", "entry.delete", [entry.id]),
        ("ben", "entry.update", [entry.id]),
        ("anna", "entry.write", [entry.id]),
    ]
    assert "secret" not in repr(page.items)


async def test_entry_acknowledged_without_its_vector_is_reported_as_pending(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content="waiting"))
    assert entry.embedding_status == "pending"


async def test_repeating_an_entry_as_its_own_parent_is_refused(services: Services, tenant: Tenant) -> None:
    values = EntryDraft(content="The harbour opens at six", external_id="H1")
    entry, _ = await services.entries.create(tenant.id, values)
    with pytest.raises(InvalidInput, match="parent_id: must be another entry"):
        await services.entries.create(tenant.id, replace(values, parent_id=entry.id))
    (result,) = await services.entries.create_many(tenant.id, [replace(values, source_ids=[entry.id])])
    assert (result.status, result.error) == ("failed", "source_ids: must be another entry")
    assert (await services.entries.get(tenant.id, entry.id)).parent_id is None


async def test_writing_an_expired_entry_again_restores_it(services: Services, tenant: Tenant) -> None:
    over = EntryDraft(content="harbour closed", external_id="H1", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    entry, _ = await services.entries.create(tenant.id, over)
    query = SearchQuery(query="harbour", mode="keyword")
    assert not (await services.search.search(tenant.id, query)).results
    again, new = await services.entries.create(tenant.id, over)
    assert (again.id, new, again.expires_at) == (entry.id, False, over.expires_at), "it says so itself"
    (result,) = await services.entries.create_many(tenant.id, [EntryDraft(content="harbour closed", external_id="H1")])
    assert (result.id, result.status) == (entry.id, "updated")
    assert [hit.id for hit in await services.search.search(tenant.id, query)] == [entry.id]
    later = datetime.now(UTC) + timedelta(days=1)
    await services.entries.change(tenant.id, entry.id, EntryDraft(expires_at=later))
    kept, _ = await services.entries.create(tenant.id, EntryDraft(content="harbour closed", external_id="H1"))
    assert kept.expires_at == later


async def test_bulk_writes_valid_entries_and_reports_invalid_ones(services: Services, tenant: Tenant) -> None:
    await services.entries.create(tenant.id, EntryDraft(content="entry 3"))
    await services.entries.create(tenant.id, EntryDraft(content="old text", external_id="x4"))
    items: list[object] = [EntryDraft(content=f"entry {n}") for n in range(1_000)]
    items[4] = EntryDraft(content="entry 4", external_id="x4")
    items[10] = {"content": ""}
    items[11] = EntryDraft(title="no content")
    items[12] = EntryDraft(content="x", parent_id=uuid4())
    items[500] = EntryDraft(content="entry 499")
    items[501] = EntryDraft(content="entry 499", tags=["second time"])
    results = await services.entries.create_many(tenant.id, items)
    assert [r.index for r in results] == list(range(1_000))
    status = {r.index: r.status for r in results}
    assert {n for n, s in status.items() if s == "failed"} == {10, 11, 12}
    assert {n for n, s in status.items() if s == "unchanged"} == {3, 500}
    assert {n for n, s in status.items() if s == "updated"} == {4, 501}
    assert all(r.error and r.id is None for r in results if r.status == "failed")
    assert "content: " in str(results[10].error)
    assert results[500].id == results[501].id == results[499].id
    assert await count(services, tenant) == 1_000 - 3 - 2
    again = await services.entries.create_many(tenant.id, items)
    assert {r.status for r in again if r.index not in (10, 11, 12)} <= {"unchanged"}
    assert [r.id for r in again] == [r.id for r in results]


async def test_bulk_of_the_wrong_size_is_refused(services: Services, tenant: Tenant) -> None:
    for number, rule in ((0, "at least 1 item"), (1_001, "at most 1000 items")):
        with pytest.raises(InvalidInput, match=f"entries: must have {rule}"):
            await services.entries.create_many(tenant.id, [EntryDraft(content="x")] * number)


REFUSALS = """
    create function refuse_marked() returns trigger language plpgsql as $$
    begin
      case
        when new.content like '%too long' then raise exception 'too long' using errcode = '22001';
        when new.content like '%no syntax' then raise exception 'no syntax' using errcode = '42601';
        when new.content like '%too large' then perform repeat('x', 3000)::tsvector;
        else return new;
      end case;
      return new;
    end $$;
    create trigger refuse_marked before insert or update on entries for each row execute function refuse_marked();
"""
"""The database refuses some values: with a data error, a syntax error of a value, and a limit of a type."""


@pytest.fixture
async def refusing(superuser_dsn: str) -> AsyncIterator[None]:
    """The database refuses entries whose content ends in certain words."""
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(REFUSALS)
        yield
        await superuser.execute("drop function refuse_marked() cascade")


@pytest.mark.usefixtures("refusing")
async def test_entries_that_the_database_refuses_do_not_affect_the_others(services: Services, tenant: Tenant) -> None:
    refused = {0: "too long", 37: "no syntax", 38: "too large", 99: "too long"}
    items = [EntryDraft(content=f"entry {n} {refused.get(n, '')}") for n in range(100)]
    items[50] = EntryDraft(content="entry 49 ")
    results = await services.entries.create_many(tenant.id, items)
    assert [r.index for r in results] == list(range(100))
    failed = {r.index: (r.id, r.error) for r in results if r.status == "failed"}
    assert failed == dict.fromkeys(refused, (None, "entry: the database cannot store its values"))
    assert results[50].id == results[49].id
    assert {r.status for r in results if r.index not in {*refused, 50}} == {"created"}
    assert await count(services, tenant) == 95
    assert [r.id for r in await services.entries.create_many(tenant.id, items)] == [r.id for r in results]


async def test_concurrent_bulks_of_the_same_entries_agree(services: Services, tenant: Tenant) -> None:
    for attempt in range(1, 5):  # without one order of writing, one in four or so would end in a deadlock
        items = [EntryDraft(content=f"entry {n}", external_id=f"{attempt} {n}") for n in range(100)]
        runs = await asyncio.gather(
            *(services.entries.create_many(tenant.id, items[::step]) for step in (1, -1, 1, -1))
        )
        assert await count(services, tenant) == 100 * attempt
        assert sum(r.status == "created" for run in runs for r in run) == 100
        assert not any(r.status == "failed" for run in runs for r in run)
