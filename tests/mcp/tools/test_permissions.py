"""Tools act as the principals of the token: they read, write and refuse as the other ways in do."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI

from app.auth.principal import Role
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.mcp_client import connect, fail, succeed

SECRET = "The zanzibar payroll is due on the 25th"
LISTS = {"readers": ["group:finance"], "writers": ["user:jane"]}
ALL = {"X-KB-Access": "all"}
Token = Callable[..., str]


@pytest.fixture
def token(admin: Caller) -> Token:
    """Makes tokens of creators in one tenant: a subject and its groups."""

    def make(subject: str, *groups: str) -> str:
        return make_token(admin.tenant_id, Role.CREATOR, subject=subject, groups=groups)

    return make


async def test_an_entry_with_readers_is_read_by_them_alone(app: FastAPI, token: Token) -> None:
    async with connect(app, token("jane", "finance")) as client:
        added, text = await succeed(client, "kb_add", content=SECRET, tags=["pay", "due"], **LISTS)
        entry_id = added["entry"]["id"]
        assert {name: added["entry"][name] for name in LISTS} == LISTS
        assert "Only its readers find it." in text
    async with connect(app, token("jim", "finance")) as client:
        found, _ = await succeed(client, "kb_search", query="zanzibar")
        assert [hit["content"] for hit in found["results"]] == [SECRET]
        read, text = await succeed(client, "kb_get", entry_id=entry_id)
        assert read["entry"]["readers"] == ["group:finance"]
        assert "readers: group:finance\nwriters: user:jane\n" in text
    async with connect(app, token("joe", "sales")) as client:
        for name, field in (("kb_search", "query"), ("hybrid_search", "query_text"), ("search", "query")):
            found, text = await succeed(client, name, **{field: "zanzibar"})
            assert (found["results"], "payroll" in text) == ([], False)
        why, _ = await succeed(client, "kb_why_not", query="zanzibar", entry_id=entry_id)
        assert not why["in_results"]
        assert "payroll" not in str(why)
        related, _ = await succeed(client, "kb_get_related", entry_id=entry_id)
        assert related["results"] == []
        assert (await succeed(client, "kb_list_tags"))[0]["items"] == []
        for name, field in (("kb_get", "entry_id"), ("fetch", "id"), ("kb_delete", "entry_id")):
            await fail(client, name, 404, **{field: entry_id})
        await fail(client, "kb_update", 404, entry_id=entry_id, title="Mine")


async def test_a_document_with_readers_is_read_by_them_alone(
    app: FastAPI, admin: Caller, token: Token, work: Work
) -> None:
    jane = Caller(admin.http, admin.tenant_id, token("jane", "finance"))
    file = (await jane.upload("pay.md", SECRET.encode(), "text/markdown", readers=["group:finance"])).json()
    await work()
    for subject, group, names in (("jim", "finance", ["pay.md"]), ("joe", "sales", [])):
        async with connect(app, token(subject, group)) as client:
            assert [each.name for each in (await client.list_resources()).resources] == names
            if names:
                part, _ = await succeed(client, "kb_read_document", asset_id=file["id"])
                assert SECRET in part["text"]
            else:
                await fail(client, "kb_read_document", 404, asset_id=file["id"])


async def test_an_entry_with_writers_is_changed_by_them_alone(app: FastAPI, token: Token) -> None:
    async with connect(app, token("jane", "finance")) as client:
        added, _ = await succeed(client, "kb_add", content=SECRET, **LISTS)
        entry_id = added["entry"]["id"]
    async with connect(app, token("jim", "finance")) as client:
        for name, arguments in (("kb_update", {"title": "Mine"}), ("kb_delete", {})):
            refused = await fail(client, name, 403, entry_id=entry_id, **arguments)
            assert refused["type"] == "/problems/not-a-writer"
    async with connect(app, token("jane", "finance")) as client:
        opened, _ = await succeed(client, "kb_update", entry_id=entry_id, readers=None, writers=None)
        assert not {"readers", "writers"} & opened.keys()


@pytest.mark.parametrize(
    ("lists", "field", "reason"),
    [
        ({"readers": ["finance"]}, "readers.0", "must be group:NAME or user:SUB"),
        ({"readers": []}, "readers", "at least 1"),
        ({"readers": ["group:finance"] * 65}, "readers", "at most 64"),
        ({"readers": ["group:sales"]}, "readers", "must contain you or one of your groups"),
        ({"readers": ["group:sales"]}, "readers", "you are user:jane, group:finance"),
        ({"writers": ["group:sales"]}, "writers", "who could not change it again; you are user:jane"),
    ],
)
async def test_wrong_lists_are_refused_with_a_reason(
    app: FastAPI, token: Token, lists: dict[str, Any], field: str, reason: str
) -> None:
    async with connect(app, token("jane", "finance")) as client:
        (error,) = (await fail(client, "kb_add", 422, content=SECRET, **lists))["errors"]
        assert error["field"] == field
        assert reason in error["message"]
        imported, _ = await succeed(client, "kb_bulk_import", entries=[{"content": SECRET, **lists}])
        assert reason in imported["results"][0]["error"]


async def test_a_derived_entry_has_no_readers_beyond_those_of_its_source(app: FastAPI, token: Token) -> None:
    async with connect(app, token("jane", "finance")) as client:
        source = (await succeed(client, "kb_add", content=SECRET, readers=["group:finance"]))[0]["entry"]["id"]
        derived = {"content": "Payday is the 25th", "source_ids": [source]}
        refused = await fail(client, "kb_add", 422, **derived)
        assert "all readers of this one" in refused["detail"]
        await succeed(client, "kb_add", readers=["group:finance"], **derived)


async def test_an_admin_sees_all_only_with_the_header(app: FastAPI, admin: Caller, token: Token) -> None:
    async with connect(app, token("jane", "finance")) as client:
        added, _ = await succeed(client, "kb_add", content=SECRET, **LISTS)
    async with connect(app, admin.token) as client:
        await fail(client, "kb_get", 404, entry_id=added["entry"]["id"])
        assert "KB_ACCESS=all" in (await fail(client, "kb_stats", 403))["detail"]
    async with connect(app, admin.token, more=ALL) as client:
        await succeed(client, "kb_get", entry_id=added["entry"]["id"])
        assert (await succeed(client, "kb_stats"))[0]["entries"] == 1
    trail = (await admin.get("/admin/audit", headers=ALL)).json()["items"]
    assert "access.all" in {row["action"] for row in trail}
