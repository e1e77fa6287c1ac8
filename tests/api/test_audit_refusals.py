"""The audit trail records refusals with their reasons, and refusals cannot fill it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import AuditFilter
from app.db.database import Database
from app.db.queries.audit import fetch_audit, list_audit
from app.db.session import TenantSession
from app.errors import DatabaseUnavailable, EntryNotFound, Forbidden
from app.knowledge.audit import READ_SECONDS, REFUSAL_SECONDS, AuditTrail
from tests.fixtures.database.cluster import TestDatabase, execute, fetch
from tests.fixtures.http.callers import Caller, make_token

UNKNOWN = str(uuid4())


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant's admin, something to act on, and the trail read past row-level security."""

    admin: Caller
    platform: Caller
    services: Services
    made: TestDatabase
    ids: dict[str, str] = field(default_factory=dict)

    async def read_rows(self) -> list[tuple[Any, ...]]:
        rows = await fetch(
            self.made.superuser_dsn,
            "select actor, action, outcome, subject_ids::text[] as ids, detail::text from audit"
            " where tenant_id = $1 order by at, id",
            self.admin.tenant_id,
        )
        return [(*(r[n] for n in ("actor", "action", "outcome", "ids")), json.loads(r["detail"])) for r in rows]

    async def read_platform_rows(self) -> list[tuple[Any, ...]]:
        rows = await fetch(
            self.made.superuser_dsn,
            "select actor, action, outcome, subject_tenant::text from platform_audit where actor = 'paula' order by id",
        )
        return [tuple(row) for row in rows]

    async def expect(self, refusal: Refusal, caller: Caller) -> None:
        """Get the refusal that the table lists."""
        method, path = refusal.endpoint.split(" ")
        answer = await caller.request(method, path.format(**self.ids), **refusal.request)
        assert answer.status_code == refusal.status, answer.text


@pytest.fixture
async def scene(admin: Caller, platform: Caller, api_services: Services, api_database: TestDatabase) -> Scene:
    entry = await admin.add("The harbour opens at six")
    asset = (await admin.upload("a.txt", b"The lighthouse is red", "text/plain")).json()
    body = {"name": "Saved", "request": {"query": "harbour"}}
    saved = (await admin.post("/knowledge/saved-searches", body)).json()
    ids = {"entry_id": entry["id"], "asset_id": asset["id"], "saved_search_id": saved["id"]}
    ids["unknown"] = UNKNOWN
    return Scene(admin, platform, api_services, api_database, ids)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused call, and the row that it must leave: `subjects` are names of ids in the scene."""

    endpoint: str
    action: str
    status: int
    reason: str | None
    subjects: tuple[str, ...] = ()
    request: dict[str, Any] = field(default_factory=dict)


TITLE = {"json": {"title": "T"}}
FEEDBACK = {"search_id": UNKNOWN, "entry_id": UNKNOWN, "relevant": True}
SAVED = "/knowledge/saved-searches/{saved_search_id}"
ENTRY = "/knowledge/entries/{entry_id}"
STALE = {**TITLE, "headers": {"If-Match": '"77"'}}
NO_CHANGE = "ModelChangeNotFound"

REFUSED = (
    Refusal(
        "PATCH /knowledge/entries/{unknown}", "entry.update", 404, "EntryNotFound", ("unknown",), TITLE
    ),
    Refusal(f"PATCH {ENTRY}", "entry.update", 412, "PreconditionFailed", ("entry_id",), STALE),
    Refusal("DELETE /knowledge/entries/{unknown}", "entry.delete", 404, "EntryNotFound", ("unknown",)),
    Refusal(
        "PATCH /knowledge/assets/{unknown}", "asset.update", 404, "AssetNotFound", ("unknown",), TITLE
    ),
    Refusal(
        "PATCH /knowledge/assets/{asset_id}", "asset.update", 412, "PreconditionFailed", ("asset_id",), STALE
    ),
    Refusal("DELETE /knowledge/assets/{unknown}", "asset.delete", 404, "AssetNotFound", ("unknown",)),
    Refusal("POST /knowledge/assets/{unknown}/retry", "asset.retry", 404, "AssetNotFound", ("unknown",)),
    Refusal("POST /knowledge/assets/{asset_id}/retry", "asset.retry", 409, "NotFailed", ("asset_id",)),
    Refusal(
        "POST /knowledge/feedback", "feedback.write", 404, "SearchNotFound", ("unknown", "unknown"), {"json": FEEDBACK}
    ),
    Refusal(
        "DELETE /knowledge/saved-searches/{unknown}", "saved_search.delete", 404, "SavedSearchNotFound", ("unknown",)
    ),
    Refusal(f"DELETE {SAVED}/subscription", "subscription.delete", 404, "SubscriptionNotFound", ("saved_search_id",)),
    Refusal(
        "DELETE /admin/subscriptions/{saved_search_id}",
        "subscription.delete",
        404,
        "SubscriptionNotFound",
        ("saved_search_id",),
    ),
    Refusal("POST /admin/reembed/switch", "model.switch", 404, NO_CHANGE),
    Refusal("POST /admin/reembed/switch-back", "model.switch", 404, NO_CHANGE),
    Refusal("DELETE /admin/reembed", "model.drop", 404, NO_CHANGE),
    Refusal("GET /admin/reembed", "model.read", 404, NO_CHANGE),
    Refusal("GET /admin/erasures/{unknown}", "erasure.read", 404, None, ("unknown",)),
    Refusal("GET /admin/searches/{unknown}", "search.read", 404, None, ("unknown",)),
)  # fmt: skip
REBUILD = {"json": {"model": "text-hash"}}
ON_PLATFORM = (
    Refusal("POST /admin/tenants", "tenant.create", 409, None, (), {"json": {"slug": "taken"}}),
    Refusal(
        "PATCH /admin/tenants/{unknown}", "tenant.limits", 404, None, ("unknown",), {"json": {"limits": {"entries": 5}}}
    ),
    Refusal("DELETE /admin/tenants/{unknown}", "tenant.delete", 404, None, ("unknown",)),
)  # fmt: skip


async def test_a_change_that_is_refused_while_another_one_ends_is_noted_once(scene: Scene) -> None:
    assert (await scene.admin.post("/admin/reembed", **REBUILD)).status_code == 202
    await execute(scene.made.superuser_dsn, "update model_changes set state = 'dropping'")
    refusal = Refusal("POST /admin/reembed", "model.reembed", 409, "ModelChangeConflict", (), REBUILD)
    await expect_one_row(refusal, scene)


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda r: f"{r.endpoint} {r.status}")
async def test_a_refusal_is_noted_once_with_its_reason(refusal: Refusal, scene: Scene) -> None:
    await expect_one_row(refusal, scene)


async def expect_one_row(refusal: Refusal, scene: Scene) -> None:
    """Get the refusal, and the row of the trail that it must leave."""
    before = await scene.read_rows()
    await scene.expect(refusal, scene.admin)
    after = await scene.read_rows()
    for known in before:
        after.remove(known)
    detail = {"reason": refusal.reason} if refusal.reason else {}
    assert after == [("ada", refusal.action, "refused", [scene.ids[s] for s in refusal.subjects], detail)]


@pytest.mark.parametrize("refusal", ON_PLATFORM, ids=lambda r: f"{r.endpoint} {r.status}")
async def test_a_refusal_on_the_platform_is_noted_once(refusal: Refusal, scene: Scene) -> None:
    await scene.platform.post("/admin/tenants", {"slug": "taken"})
    before = await scene.read_platform_rows()
    await scene.expect(refusal, scene.platform)
    (row,) = (await scene.read_platform_rows())[len(before) :]
    assert row == ("paula", refusal.action, "refused", UNKNOWN if refusal.subjects else None)


async def test_a_call_that_changes_nothing_leaves_no_row(scene: Scene) -> None:
    before = await scene.read_rows()
    assert (await scene.admin.post("/knowledge/entries", {"content": "The harbour opens at six"})).status_code == 200
    assert (await scene.admin.upload("a.txt", b"The lighthouse is red", "text/plain")).status_code == 200
    assert (await scene.admin.post("/knowledge/entries", {"content": ""})).status_code == 422
    assert await scene.read_rows() == before


async def test_a_missing_role_is_noted_once_per_interval(scene: Scene, http: httpx.AsyncClient) -> None:
    reader = Caller(http, scene.admin.tenant_id, make_token(scene.admin.tenant_id, Role.READER, subject="rob"))
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
    """A reader may give feedback and delete its own searches; this includes ids that never existed."""
    for subject in ("rob", "rita"):
        token = make_token(scene.admin.tenant_id, Role.READER, subject=subject)
        reader = Caller(http, scene.admin.tenant_id, token)
        for _ in range(3):
            feedback = {"search_id": str(uuid4()), "entry_id": str(uuid4()), "relevant": True}
            assert (await reader.post("/knowledge/feedback", feedback)).status_code == 404
            assert (await reader.delete(f"/knowledge/saved-searches/{uuid4()}")).status_code == 404
    refused = sorted(row[:2] for row in await scene.read_rows() if row[2] == "refused")
    assert refused == [(who, what) for who in ("rita", "rob") for what in ("feedback.write", "saved_search.delete")]


async def refuse(trail: AuditTrail, tenant_id: UUID) -> None:
    with pytest.raises(EntryNotFound):
        async with trail.attempt(tenant_id, "rob", "entry.delete"):
            raise EntryNotFound("gone")


async def test_a_refusal_is_noted_again_after_the_interval(scene: Scene) -> None:
    times = iter((0.0, REFUSAL_SECONDS - 0.1, REFUSAL_SECONDS, REFUSAL_SECONDS + 0.1))
    trail = AuditTrail(scene.services.database, clock=times.__next__)
    tenant_id = scene.admin.own_tenant
    counts = []
    for _ in range(4):
        await refuse(trail, tenant_id)
        counts.append(sum(row[0] == "rob" for row in await scene.read_rows()))
    assert counts == [1, 1, 2, 2]


async def test_reads_are_noted_once_in_an_interval_with_their_number(scene: Scene) -> None:
    now = 0.0
    trail = AuditTrail(scene.services.database, clock=lambda: now)
    tenant_id = scene.admin.own_tenant
    one, another = uuid4(), uuid4()

    async def note(reader: str, subject: UUID | None = None, *, found: bool = True) -> None:
        async with scene.services.database.tenant_session(tenant_id) as session:
            await trail.note_read(session, reader, "search.read", subject, found=found)

    async def rows(reader: str) -> list[tuple[str, int]]:
        async with scene.services.database.tenant_session(tenant_id) as session:
            found = await fetch_audit(session, [r.id for r in await list_audit(session, AuditFilter(), None, 100)])
        return [(r.outcome, r.detail.get("reads", 1)) for r in reversed(found) if r.actor == reader]

    for moment in (0.0, 1.0, READ_SECONDS - 0.1, READ_SECONDS):
        now = moment
        await note("rob")
    assert await rows("rob") == [("done", 1), ("done", 3)]
    for subject in (one, another, one):
        await note("rita", subject)
    assert await rows("rita") == [("done", 1), ("done", 1)]
    for _ in range(3):
        await note("mallory", uuid4(), found=False)
    assert await rows("mallory") == [("refused", 1)]


class UnsteadyDatabase(Database):
    """The real database, which is unavailable while `away` is true."""

    away = False

    @asynccontextmanager
    async def tenant_session(
        self, tenant_id: UUID, *, setup: str = "", background: timedelta | None = None, aside: bool = False
    ) -> AsyncIterator[TenantSession]:
        if self.away:
            raise DatabaseUnavailable("told to be away")
        async with super().tenant_session(tenant_id, setup=setup, background=background, aside=aside) as session:
            yield session


async def test_a_refusal_that_could_not_be_written_is_noted_next_time(scene: Scene) -> None:
    database = UnsteadyDatabase(scene.made.service_dsn, pool_size=1)
    trail = AuditTrail(database, clock=lambda: 0.0)
    tenant_id = scene.admin.own_tenant
    noted = []
    for database.away in (True, False, False):
        await refuse(trail, tenant_id)
        await trail.deny(tenant_id, "rob", "get_stats", Forbidden("no"))
        rows = await scene.read_rows()
        noted.append([action for actor, action, *_ in rows if actor == "rob"])
    await database.close()
    assert noted == [[], ["entry.delete", "access"], ["entry.delete", "access"]]
