"""Permissions inside a tenant with both clients: lists of readers, changes of many items, and what an admin sees."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest

from app.auth.principal import Role
from knowledge_client import Forbidden, InvalidInput, KnowledgeClient, NotFound
from tests.client.callers import ClientCaller, make_client
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.running_service import RunningService

Join = Callable[..., ClientCaller]


@pytest.fixture
def tenant_id(service: RunningService) -> UUID:
    """A tenant of the test."""
    return service.new_tenant()


@pytest.fixture
async def join(service: RunningService, tenant_id: UUID, live_kind: str) -> AsyncIterator[Join]:
    """Makes clients of callers of one tenant: a subject, its groups, a role, and the access."""
    async with AsyncExitStack() as stack:

        def make(subject: str, *groups: str, role: Role = Role.CREATOR, access: Any = None) -> ClientCaller:
            token = make_token(tenant_id, role, subject=subject, groups=groups)
            caller = make_client(live_kind, service.url, token, access=access)
            stack.push_async_callback(caller.close)
            return caller

        yield make


async def test_readers_are_set_with_an_entry_an_asset_and_a_source(join: Join) -> None:
    jane, joe = join("jane", "finance"), join("joe", "sales")
    lists = {"readers": ["group:finance"], "writers": ["user:jane"]}
    entry = await jane("create_entry", "The payroll is due.", **lists)
    assert (entry.readers, entry.writers) == (["group:finance"], ["user:jane"])
    asset = await jane("upload_asset", b"Payroll rules.", name="rules.txt", **lists)
    await jane("wait_until_indexed", asset)
    source = await jane("put_source", "ledger", [], allow_empty=True, **lists)
    assert (source.readers, source.writers) == (["group:finance", "user:jane"], ["user:jane"])
    assert len((await jane("search", "payroll", mode="keyword")).results) == 2
    assert (await joe("search", "payroll", mode="keyword")).results == []
    for method, key in (("get_entry", entry.id), ("get_asset", asset.id), ("get_source", "ledger")):
        with pytest.raises(NotFound):
            await joe(method, key)
    with pytest.raises(InvalidInput, match="readers"):
        await joe("create_entry", "Not mine", readers=["group:finance"])
    with pytest.raises(Forbidden) as refused:
        await join("jim", "finance")("change_entry", entry.id, title="Mine")
    assert refused.value.problem.type == "/problems/not-a-writer"
    opened = await jane("change_entry", entry.id, readers=None)
    assert (await joe("get_entry", opened.id)).readers is None


async def test_the_access_to_many_items_is_changed_until_done(join: Join) -> None:
    jane, joe = join("jane", "finance"), join("joe", "sales")
    written = [{"content": f"Payroll {n}", "tags": ["payroll"]} for n in range(201)]
    await jane("create_entries", written)
    where = {"tags": ["payroll"]}
    tried = await jane("change_access", where, readers={"set": ["group:finance"]}, dry_run=True)
    assert (tried.matched, tried.changed, tried.next_cursor) == (201, 201, None)
    assert len(await joe("iterate_entries", limit=200)) == 201
    pages = await jane("iterate_access_changes", where, readers={"set": ["group:finance"]})
    assert [page.matched for page in pages if page.matched] == [200, 1]
    assert sum(page.changed for page in pages) == 201
    assert await joe("iterate_entries") == []
    lost = await jane("change_access", {"principal": "group:finance"}, readers={"remove": ["group:finance"]})
    assert (lost.matched, lost.changed, len(lost.refused)) == (201, 0, 201)
    assert "would be empty" in lost.refused[0].reason
    with pytest.raises(InvalidInput, match="where"):
        await jane("change_access", {}, readers={"set": None})


async def test_an_admin_sees_who_may_read_only_with_the_access_all(join: Join) -> None:
    jane = join("jane", "finance")
    entry = await jane("create_entry", "The payroll is due.", readers=["group:finance"])
    asset = await jane("upload_asset", b"Payroll rules.", name="rules.txt", readers=["group:finance"])
    await jane("wait_until_indexed", asset)
    await jane("put_source", "ledger", [], allow_empty=True)
    plain = join("ada", role=Role.TENANT_ADMIN)
    with pytest.raises(Forbidden, match="X-KB-Access: all"):
        await plain("get_entry_readers", entry.id)
    with pytest.raises(NotFound):
        await plain("get_entry", entry.id)
    admin = join("ada", role=Role.TENANT_ADMIN, access="all")
    assert (await admin("get_entry", entry.id)).readers == ["group:finance"]
    for method, item in (("get_entry_readers", entry), ("get_asset_readers", asset)):
        found = await admin(method, item.id)
        assert (found.id, found.readers, found.decided_by) == (item.id, ["group:finance"], found.kind)
    assert (await admin("get_source_readers", "ledger")).readers is None
    subject = await admin("get_subject_access", "jim", groups=["finance", "sales"], limit=1)
    assert (subject.readable.entries, subject.total.assets, subject.groups_from) == (1, 1, "request")
    assert subject.next_cursor is not None
    listed = await admin("iterate_subject_access", "jim", groups=["finance"], limit=1)
    assert {item.id for item in listed} == {entry.id, asset.id}
    assert await admin("iterate_subject_access", "jim", groups=["sales"]) == []
    assert "access.all" in {record.action for record in await admin("iterate_audit")}
    with pytest.raises(Forbidden):
        await join("jane", "finance", access="all")("get_entry", entry.id)


def test_the_access_comes_from_the_environment(
    service: RunningService, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("KB_URL", service.url)
    monkeypatch.setenv("KB_TOKEN", make_token(tenant_id, Role.CREATOR, subject="jane"))
    monkeypatch.delenv("KB_ACCESS", raising=False)
    with KnowledgeClient() as jane:
        entry = jane.create_entry("Mine", readers=["user:jane"])
    monkeypatch.setenv("KB_TOKEN", make_token(tenant_id, Role.TENANT_ADMIN))
    with KnowledgeClient() as admin, pytest.raises(NotFound):
        admin.get_entry(entry.id)
    monkeypatch.setenv("KB_ACCESS", "all")
    with KnowledgeClient() as admin:
        assert admin.get_entry(entry.id) == entry
    monkeypatch.setenv("KB_ACCESS", "some")
    with pytest.raises(ValueError, match="access: must be all"):
        KnowledgeClient()
