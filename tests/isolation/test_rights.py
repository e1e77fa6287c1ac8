"""Readers, creators and admins are roles of the database: a fault in the code of a reader's path cannot write."""

import itertools
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.search import SearchQuery
from app.db.principals import Rights, acting_as, principals_of
from app.db.queries import entries as db
from app.db.schema.isolation import find_faults
from tests.fixtures.database.cluster import Connection, connected
from tests.fixtures.database.seeded import Seeded
from tests.fixtures.http.callers import Caller, make_token

VERBS = ("insert", "update", "delete")
ALL = set(VERBS)
ADDS = {"insert", "update"}
READER: dict[str, set[str]] = {
    "audit": {"insert"},
    "deliveries": {"update"},
    "entry_changes": {"delete"},
    "feedback": ALL,
    "jobs": ADDS,
    "saved_searches": ALL,
    "subscriptions": ALL,
}
CREATOR = READER | {
    **dict.fromkeys(
        [
            *("assets", "embeddings", "entries", "entry_changes", "former_embeddings", "former_entries", "jobs"),
            *("pending_embeddings", "source_items", "sources"),
        ],
        ALL,
    ),
    **dict.fromkeys(
        [
            *("asset_statistics", "corpus_statistics", "usage_by_day", "permissions", "tag_statistics"),
            "vector_statistics",
        ],
        ADDS,
    ),
}
ADMIN = CREATOR | {
    **dict.fromkeys(
        [
            *("erasure_items", "erasures", "kept_versions", "model_changes", "released_texts", "revoked_tokens"),
            "vector_statistics",
        ],
        ALL,
    ),
    "searches": {"update"},
    "api_keys": {"insert", "delete"},
}
WRITES = {Rights.READ: READER, Rights.WRITE: CREATOR, Rights.ADMINISTER: ADMIN}
"""What each role may write of the tables of a tenant."""

STATEMENTS = {
    "insert": "insert into {0} (tenant_id) select tenant_id from {0} where false",
    "update": "update {0} set tenant_id = tenant_id where false",
    "delete": "delete from {0} where false",
}

REVOKE = "revoke {} from {} granted by kb_migrator"

ENTRY = "An entry that no reader changes"


@pytest.fixture
async def breaking(seeded: Seeded) -> Any:
    """A superuser in a transaction that is undone."""
    async with connected(seeded.database.superuser_dsn) as connection:
        undo = connection.transaction()
        await undo.start()
        yield connection
        await undo.rollback()


async def try_to(connection: Connection, role: str, sql: str) -> bool:
    """Whether a role may run a statement."""
    undo = connection.transaction()
    await undo.start()
    try:
        await connection.execute(f"set local role {role}")
        await connection.execute(sql)
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        await undo.rollback()
    return True


@pytest.mark.parametrize("rights", WRITES, ids=lambda rights: rights.value)
async def test_each_role_writes_only_its_tables(seeded: Seeded, breaking: Connection, rights: Rights) -> None:
    wrong = [
        f"{verb} {table}"
        for table, verb in itertools.product(seeded.tables, VERBS)
        if await try_to(breaking, rights.value, STATEMENTS[verb].format(table))
        is not (verb in WRITES[rights].get(table, ()))
    ]
    assert wrong == []
    columns = ("name", "settings", "model_id", "slug", "limits")
    changes = {c for c in columns if await try_to(breaking, rights.value, f"update tenants set {c} = {c}")}
    assert changes == (set(columns[:3]) if rights is Rights.ADMINISTER else set())


def list_changes() -> Iterator[tuple[str, str]]:
    """Changes of the rights of a role, each with what the gate says of it."""
    for table in ("entries", "assets", "sources", "searches", "tenants"):
        yield f"grant update on {table} to kb_reader", f"rights of kb_reader on public.{table}"
    yield "grant insert (content) on entries to kb_reader", "rights of kb_reader on public.entries"
    yield "grant delete on entries to public", "rights of public on public.entries"
    yield "grant delete on erasures to kb_creator", "rights of kb_creator on public.erasures"
    yield "grant insert on entries_p00 to kb_reader", "rights of kb_reader on public.entries_p00"
    yield "revoke insert on feedback from kb_reader", "rights of kb_reader on public.feedback"
    yield "grant kb_creator to kb_reader", "role kb_reader is a member of kb_creator"
    yield "grant kb_app to kb_admin", "role kb_admin is a member of kb_app"
    yield REVOKE.format("kb_reader", "kb_creator"), "role kb_creator is not a member of kb_reader"
    yield "alter role kb_reader login", "role kb_reader may log in"
    yield "alter role kb_creator bypassrls", "role kb_creator has BYPASSRLS"
    deletion = "tenancy.delete_tenant(uuid, text)"
    yield f"grant execute on function {deletion} to kb_reader", "may be executed by kb_reader"


@pytest.mark.parametrize(("sql", "named"), list(list_changes()))
async def test_a_change_of_rights_is_noticed(breaking: Connection, sql: str, named: str) -> None:
    if "is a member" in named:  # a member cannot have its own role as a member
        for role, member in (("kb_reader", "kb_creator"), ("kb_admin", "kb_app")):
            await breaking.execute(REVOKE.format(role, member))
    await breaking.execute(sql)
    await breaking.execute("set local role kb_service")
    faults = [fault.text for fault in await find_faults(breaking)]
    assert [fault for fault in faults if named in fault], faults


async def test_a_reading_transaction_cannot_write(admin: Caller, api_services: Services) -> None:
    assert admin.tenant_id is not None
    entry = await admin.add(ENTRY)
    with acting_as(principals_of("ada", []), Rights.READ):
        found = await api_services.search.search(admin.tenant_id, SearchQuery(query="entry", mode="keyword"))
        assert [hit.content for hit in found] == [ENTRY]
        async with api_services.database.tenant_session(admin.tenant_id) as session:
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for table entries"):
                await db.delete_entry(session, found[0].id)
            # The transaction ends with its error.
            with pytest.raises(asyncpg.InFailedSQLTransactionError):
                await db.fetch_entries(session, [found[0].id])
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).json()["content"] == ENTRY


@pytest.mark.parametrize("way", ["http", "mcp"])
async def test_a_faulty_search_of_an_admin_cannot_write(
    admin: Caller, api_services: Services, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The path counts, not the caller: an admin's search reads, too."""
    assert admin.tenant_id is not None
    entry = await admin.add(ENTRY)
    tried: list[str] = []

    async def delete_all(*_: Any, **__: Any) -> Any:
        async with api_services.database.tenant_session(admin.tenant_id) as session:  # type: ignore[arg-type]
            tried.append(await session._connection.fetchval("select current_user"))
            await session._connection.execute("delete from entries")

    monkeypatch.setattr(type(api_services.search), "search", delete_all)
    writer = Caller(admin.http, admin.tenant_id, make_token(admin.tenant_id, Role.TENANT_ADMIN))
    if way == "http":
        answer = await writer.post("/knowledge/search", {"query": "entry"})
        assert answer.status_code == 500
    else:
        call = {"name": "kb_search", "arguments": {"query": "entry"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answer = await writer.post("/mcp", body, headers={"Accept": "application/json, text/event-stream"})
        assert answer.json()["result"]["isError"]
    assert tried == ["kb_reader"]
    assert (await admin.get(f"/knowledge/entries/{entry['id']}")).status_code == 200
