"""The audit trail: whatever changes something, or is an administrative read, leaves exactly one row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI

from app.auth.principal import Role
from app.composition import Services
from app.db.identifiers import new_id
from app.errors import EntryNotFound
from app.knowledge.audit import REFUSAL_SECONDS, AuditTrail
from tests.api.callers import Caller, make_token
from tests.api.test_authorisation import TABLE as ENDPOINTS
from tests.db.cluster import TestDatabase, connected

Rows = list[tuple[str, str, str, list[str]]]
Act = tuple[dict[str, Any], list[str]]
"""What to send, and the ids that the row must name."""

UNKNOWN = str(uuid4())

ASKING = {
    "POST /knowledge/search",
    "POST /knowledge/search/batch",
    "POST /knowledge/search/why-not",
    "POST /knowledge/saved-searches/{saved_search_id}/run",
}
"""Questions: nothing is changed, and each search has a receipt of its own."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant's admin, something to act upon, and the trail past row-level security."""

    admin: Caller
    platform: Caller
    services: Services
    made: TestDatabase
    ids: dict[str, str] = field(default_factory=dict)

    async def read_rows(self) -> Rows:
        async with connected(self.made.superuser_dsn) as superuser:
            rows = await superuser.fetch(
                "select id::text, actor, action, outcome, subject_ids::text[] as ids from audit where tenant_id = $1",
                self.admin.tenant_id,
            )
        return [(r["actor"], r["action"], r["outcome"], r["ids"]) for r in rows]

    async def read_platform_rows(self) -> list[tuple[str, str, str, str | None]]:
        async with connected(self.made.superuser_dsn) as superuser:
            rows = await superuser.fetch("select * from platform_audit where actor = 'paula' order by id")
        return [(r["actor"], r["action"], r["outcome"], r["subject_tenant"]) for r in rows]


@pytest.fixture
async def scene(admin: Caller, platform: Caller, api_services: Services, api_database: TestDatabase) -> Scene:
    entry = await admin.add("The harbour opens at six")
    asset = (await admin.upload("a.txt", b"The lighthouse is red", "text/plain")).json()
    body = {"name": "Saved", "request": {"query": "harbour"}}
    saved = (await admin.post("/knowledge/saved-searches", body)).json()
    ids = {"entry_id": entry["id"], "asset_id": asset["id"], "saved_search_id": saved["id"]}
    return Scene(admin, platform, api_services, api_database, ids)


@dataclass(frozen=True, slots=True)
class Row:
    """The row that one call must leave: what is done, on which of the scene's things, and how it ends."""

    action: str
    request: dict[str, Any] = field(default_factory=dict)
    subject: str | None = None
    outcome: str = "done"
    status: int = 200


CHANGES: dict[str, Row] = {
    "POST /knowledge/entries": Row("entry.write", {"json": {"content": "new"}}, "id", status=201),
    "POST /knowledge/entries/bulk": Row(
        "entry.write",
        {
            "json": {
                "entries": [{"content": "one"}, {"content": "two"}, {"content": "one", "tags": ["again"]}]
            }
        },
        "results",
    ),
    "PATCH /knowledge/entries/{entry_id}": Row("entry.update", {"json": {"title": "T"}}, "entry_id"),
    "DELETE /knowledge/entries/{entry_id}": Row("entry.delete", {}, "entry_id", status=204),
    "POST /knowledge/assets": Row(
        "asset.upload", {"files": {"file": ("c.txt", b"text", "text/plain")}}, "id", status=202
    ),
    "POST /knowledge/assets/{asset_id}/retry": Row("asset.retry", {}, "asset_id", "refused", 409),
    "DELETE /knowledge/assets/{asset_id}": Row("asset.delete", {}, "asset_id", status=204),
    "PATCH /admin/settings": Row("settings.update", {"json": {"fusion": "score"}}),
    "POST /knowledge/feedback": Row(
        "feedback.write",
        {"json": {"search_id": UNKNOWN, "entry_id": UNKNOWN, "relevant": True}},
        "unknown twice",
        "refused",
        404,
    ),
    "POST /knowledge/saved-searches": Row(
        "saved_search.write", {"json": {"name": "N", "request": {"query": "harbour"}}}, "id", status=201
    ),
    "DELETE /knowledge/saved-searches/{saved_search_id}": Row(
        "saved_search.delete", {}, "saved_search_id", status=204
    ),
    "POST /knowledge/saved-searches/{saved_search_id}/subscription": Row(
        "subscription.write", {"json": {"url": "https://198.51.101.7/hook"}}, "saved_search_id", status=201
    ),
    "DELETE /knowledge/saved-searches/{saved_search_id}/subscription": Row(
        "subscription.delete", {}, "saved_search_id", "refused", 404
    ),
    "DELETE /admin/subscriptions/{saved_search_id}": Row(
        "subscription.delete", {}, "saved_search_id", "refused", 404
    ),
    "POST /admin/reembed": Row("model.reembed", {"json": {"model": "text-hash"}}, None, "refused", 409),
    "POST /admin/reembed/switch": Row("model.switch", {}, None, "refused", 404),
    "POST /admin/reembed/switch-back": Row("model.switch", {}, None, "refused", 404),
    "DELETE /admin/reembed": Row("model.drop", {}, None, "refused", 404),
}
READS: dict[str, Row] = {
    "GET /admin/stats": Row("stats.read"),
    "GET /admin/settings": Row("settings.read"),
    "GET /admin/audit": Row("audit.read"),
    "GET /admin/feedback": Row("feedback.read"),
    "GET /admin/subscriptions": Row("subscription.list"),
    "GET /admin/searches/{search_id}": Row("search.read", {}, "unknown", "refused", 404),
    "GET /admin/reembed": Row("model.read", {}, None, "refused", 404),
}
PLATFORM: dict[str, Row] = {
    "GET /admin/tenants": Row("tenant.list"),
    "POST /admin/tenants": Row("tenant.create", {}, status=201),
    "PATCH /admin/tenants/{tenant_id}": Row(
        "tenant.limits", {"json": {"limits": {"entries": 5}}}, "unknown", "refused", 404
    ),
    "DELETE /admin/tenants/{tenant_id}": Row("tenant.delete", {}, "unknown", "refused", 404),
}


def test_every_endpoint_that_changes_or_administers_has_a_row(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    endpoints = {f"{m.upper()} {path}" for path, methods in paths.items() for m in methods}
    noted = {e for e in endpoints if not e.startswith("GET ") or " /admin/" in e} - ASKING
    assert noted == {*CHANGES, *READS, *PLATFORM}


@pytest.mark.parametrize("endpoint", [*CHANGES, *READS])
async def test_an_act_leaves_exactly_one_row(endpoint: str, scene: Scene) -> None:
    expected = (CHANGES | READS)[endpoint]
    method, path = endpoint.split(" ")
    before = await scene.read_rows()
    answer = await scene.admin.request(
        method, path.format(**scene.ids, search_id=UNKNOWN), **expected.request
    )
    assert answer.status_code == expected.status, answer.text
    after = await scene.read_rows()
    for row in before:
        after.remove(row)
    (row,) = after
    assert row[:3] == ("ada", expected.action, expected.outcome)
    match expected.subject:
        case None:
            wanted = []
        case "id":
            wanted = [answer.json()["id"]]
        case "results":
            wanted = list(dict.fromkeys(r["id"] for r in answer.json()["results"]))
        case "unknown":
            wanted = [UNKNOWN]
        case "unknown twice":
            wanted = [UNKNOWN, UNKNOWN]
        case name:
            wanted = [scene.ids[name]]
    assert sorted(row[3]) == sorted(wanted)


@pytest.mark.parametrize("endpoint", PLATFORM)
async def test_an_act_on_the_platform_leaves_exactly_one_row(endpoint: str, scene: Scene) -> None:
    expected = PLATFORM[endpoint]
    method, path = endpoint.split(" ")
    before = await scene.read_platform_rows()
    body = {"json": {"slug": f"t-{new_id().hex}"}} if method == "POST" else expected.request
    answer = await scene.platform.request(method, path.format(tenant_id=UNKNOWN), **body)
    assert answer.status_code == expected.status, answer.text
    (row,) = (await scene.read_platform_rows())[len(before) :]
    assert row[:3] == ("paula", expected.action, expected.outcome)
    if method == "POST":
        assert str(row[3]) == answer.json()["id"]
        again = await scene.platform.request(method, path, **body)
        assert again.status_code == 409
        assert (await scene.read_platform_rows())[-1][1:3] == ("tenant.create", "refused")
    assert str(row[3]) == UNKNOWN if expected.subject else True


Attempt = Callable[[Scene], Awaitable[httpx.Response]]

REFUSED: dict[str, tuple[Attempt, int, str]] = {
    "changing an unknown entry": (
        lambda s: s.admin.patch(f"/knowledge/entries/{UNKNOWN}", {"title": "T"}),
        404,
        "EntryNotFound",
    ),
    "changing an entry that others changed": (
        lambda s: s.admin.patch(
            f"/knowledge/entries/{s.ids['entry_id']}", {"title": "T"}, headers={"If-Match": '"77"'}
        ),
        412,
        "PreconditionFailed",
    ),
    "deleting an unknown entry": (
        lambda s: s.admin.delete(f"/knowledge/entries/{UNKNOWN}"),
        404,
        "EntryNotFound",
    ),
    "deleting an unknown asset": (
        lambda s: s.admin.delete(f"/knowledge/assets/{UNKNOWN}"),
        404,
        "AssetNotFound",
    ),
    "retrying an unknown asset": (
        lambda s: s.admin.post(f"/knowledge/assets/{UNKNOWN}/retry"),
        404,
        "AssetNotFound",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_is_noted_with_its_reason(name: str, scene: Scene) -> None:
    attempt, status, reason = REFUSED[name]
    assert (await attempt(scene)).status_code == status
    (newest,) = (await scene.admin.get("/admin/audit", params={"limit": 1})).json()["items"]
    assert (newest["actor"], newest["outcome"], newest["detail"]) == ("ada", "refused", {"reason": reason})


async def test_what_changes_nothing_leaves_no_row(scene: Scene) -> None:
    before = await scene.read_rows()
    assert (
        await scene.admin.post("/knowledge/entries", {"content": "The harbour opens at six"})
    ).status_code == 200
    assert (await scene.admin.upload("a.txt", b"The lighthouse is red", "text/plain")).status_code == 200
    assert (await scene.admin.post("/knowledge/entries", {"content": ""})).status_code == 422
    assert await scene.read_rows() == before


async def test_who_lacks_the_role_is_noted_once_in_a_while(scene: Scene, http: httpx.AsyncClient) -> None:
    reader = Caller(
        http, scene.admin.tenant_id, make_token(scene.admin.tenant_id, Role.READER, subject="rob")
    )
    for _ in range(3):
        assert (await reader.get("/admin/stats")).status_code == 403
        assert (await reader.delete(f"/knowledge/entries/{scene.ids['entry_id']}")).status_code == 403
    items = (await scene.admin.get("/admin/audit")).json()["items"]
    denied = [i for i in items if i["action"] == "access"]
    assert [(i["actor"], i["outcome"], i["detail"]["operation"]) for i in denied] == [
        ("rob", "refused", "delete_entry"),
        ("rob", "refused", "get_stats"),
    ]


async def test_one_callers_refusals_do_not_fill_the_trail(scene: Scene, http: httpx.AsyncClient) -> None:
    """A reader may give feedback and delete searches of its own, on ids that never were too."""
    for subject in ("rob", "rita"):
        token = make_token(scene.admin.tenant_id, Role.READER, subject=subject)
        reader = Caller(http, scene.admin.tenant_id, token)
        for _ in range(3):
            feedback = {"search_id": str(uuid4()), "entry_id": str(uuid4()), "relevant": True}
            assert (await reader.post("/knowledge/feedback", feedback)).status_code == 404
            assert (await reader.delete(f"/knowledge/saved-searches/{uuid4()}")).status_code == 404
    refused = sorted(row[:2] for row in await scene.read_rows() if row[2] == "refused")
    assert refused == [
        (who, what) for who in ("rita", "rob") for what in ("feedback.write", "saved_search.delete")
    ]


async def test_a_refusal_is_noted_again_after_a_while(scene: Scene) -> None:
    times = iter((0.0, REFUSAL_SECONDS - 0.1, REFUSAL_SECONDS, REFUSAL_SECONDS + 0.1))
    trail = AuditTrail(scene.services.database, clock=times.__next__)
    tenant_id = scene.admin.tenant_id
    assert tenant_id is not None
    counts = []
    for _ in range(4):
        await trail.refuse(tenant_id, "rob", "entry.delete", EntryNotFound("gone"))
        counts.append(sum(row[0] == "rob" for row in await scene.read_rows()))
    assert counts == [1, 1, 2, 2]


async def test_a_write_that_fails_takes_its_row_along(scene: Scene) -> None:
    """The row is in the transaction of the change: where one cannot be kept, neither is the other."""
    async with connected(scene.made.superuser_dsn) as superuser:
        await superuser.execute("alter table audit add constraint full_up check (actor <> 'eve') not valid")
        try:
            eve = Caller(
                scene.admin.http,
                scene.admin.tenant_id,
                make_token(scene.admin.tenant_id, Role.TENANT_ADMIN, subject="eve"),
            )
            entry = f"/knowledge/entries/{scene.ids['entry_id']}"
            assert (await eve.delete(entry)).status_code == 500
            assert (await eve.patch("/admin/settings", {"fusion": "score"})).status_code == 500
            assert (await eve.post("/knowledge/entries", {"content": "never kept"})).status_code == 500
        finally:
            await superuser.execute("alter table audit drop constraint full_up")
    assert (await scene.admin.get(entry)).status_code == 200
    assert (await scene.admin.get("/admin/settings")).json()["fusion"] == "rrf"
    assert await scene.admin.find("kept") == []


def test_the_table_of_endpoints_knows_all_of_these() -> None:
    assert {*CHANGES, *READS, *PLATFORM} <= set(ENDPOINTS)
