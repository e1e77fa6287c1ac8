"""A tenant that another process deletes: this process remembers it for a moment longer."""

import itertools
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import Tenant
from app.db.queries.jobs import Job
from app.db.queries.receipts import put_feedback
from app.knowledge.worker import KINDS, OUTWARD_KINDS
from tests.api.deletion import delete_elsewhere
from tests.api.endpoints import PLATFORM, TABLE, save_search
from tests.fixtures.database.cluster import TestDatabase
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.expectations import expect_problem

GONE = "the token's tenant does not exist"
READING = {
    "POST /knowledge/search",
    "POST /knowledge/search/why-not",
    "POST /knowledge/search/batch",
    "POST /knowledge/saved-searches/{saved_search_id}/run",
    "POST /admin/quarantine/release",
    "PATCH /knowledge/access",
}
"""Like a GET, these may find nothing: no answer waits for what they write, and a release or a change of nothing writes
nothing."""
ECHOING = {"POST /knowledge/search/why-not"}
"""Answers that repeat the requested id."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deleted tenant and its ids.

    Attributes:
        recall: makes the service remember the tenant again, as if it had just been deleted.
    """

    caller: Caller
    ids: dict[str, str]
    recall: Callable[[], None]


@pytest.fixture
async def deleted(admin: Caller, api_services: Services, api_database: TestDatabase) -> AsyncIterator[Deleted]:
    """The test's tenant, with an entry that was searched for, deleted through a connection of another
    process.
    """
    entry = await admin.add("The harbour opens at six")
    asset = await admin.upload("a.txt", b"The harbour", "text/plain")
    found = await admin.search("harbour")
    ids = {
        "entry_id": entry["id"],
        "asset_id": asset.json()["id"],
        "saved_search_id": await save_search(admin),
        "search_id": found["metadata"]["search_id"],
        "tenant_id": str(uuid4()),
        "erasure_id": str(uuid4()),
        "key_id": str(uuid4()),
        "name": "shelf",
    }
    await api_services.journal.flush()
    recall = await delete_elsewhere(api_services, api_database.service_dsn, admin.own_tenant)
    yield Deleted(admin, ids, recall)
    api_services.tenants.forget(admin.own_tenant)


def fill(request: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """The request with ids that belonged to the tenant."""
    body = request.get("json")
    if body and "entry_id" in body:
        return {"json": {**body, **{name: ids[name] for name in body if name in ids}}}
    return request


def describe_wrong(deleted: Deleted, endpoint: str, answer: httpx.Response) -> str | None:
    """What is wrong with an answer, or None."""
    if answer.status_code == 401:
        return None if expect_problem(answer, 401)["detail"] == GONE else answer.text
    shown = answer.text.replace(deleted.ids["entry_id"], "") if endpoint in ECHOING else answer.text
    if endpoint.startswith("GET ") or endpoint in READING:
        known = ("harbour", "a.txt", deleted.ids["entry_id"], "tenant")
        if answer.status_code in (200, 404) and not any(word in shown for word in known):
            return None
    return f"{endpoint}: {answer.status_code} {answer.text}"


async def test_no_endpoint_fails_for_a_tenant_that_another_process_deleted(
    deleted: Deleted, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = []
    for endpoint, (allowed, request, _) in TABLE.items():
        if allowed is not PLATFORM:
            deleted.recall()
            method, path = endpoint.format(**deleted.ids).split(" ")
            # Only the first of a caller's refusals at one operation is noted, and it finds that the tenant
            # was deleted.
            token = make_token(deleted.caller.tenant_id, Role.TENANT_ADMIN, subject=endpoint)
            caller = replace(deleted.caller, token=token)
            answer = await caller.request(method, path, **fill(request, deleted.ids))
            wrong.append(describe_wrong(deleted, endpoint, answer))
    assert [text for text in wrong if text] == []
    assert len(wrong) > 30
    assert [line.message for line in caplog.records if line.levelno >= logging.ERROR] == []


async def test_a_write_to_a_deleted_tenant_makes_the_service_forget_it(deleted: Deleted) -> None:
    path = "/knowledge/entries"
    assert (await deleted.caller.get(path)).json()["items"] == []
    expect_problem(await deleted.caller.post(path, {"content": "The lighthouse"}), 401)
    expect_problem(await deleted.caller.get(path), 401)


async def test_a_broken_reference_in_an_existing_tenant_is_not_a_deletion(
    api_tenant: Tenant, api_services: Services
) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        async with api_services.database.tenant_session(api_tenant.id) as session:
            await put_feedback(session, uuid4(), uuid4(), "ada", True, None)


async def test_a_tool_refuses_a_deleted_tenants_token(deleted: Deleted) -> None:
    call = {"name": "kb_add", "arguments": {"content": "The lighthouse"}}
    answer = await deleted.caller.post(
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={"Accept": "application/json, text/event-stream"},
    )
    told = answer.json()["result"]["structuredContent"]
    assert (told["status"], told["detail"]) == (401, GONE), told


async def test_a_job_of_a_deleted_tenant_is_dropped_quietly(
    deleted: Deleted, api_services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    tenant_id = deleted.caller.own_tenant
    for kind, remembered in itertools.product((*KINDS, *OUTWARD_KINDS), (True, False)):
        deleted.recall() if remembered else api_services.tenants.forget(tenant_id)
        job = Job(tenant_id, uuid4(), kind, deleted.ids["asset_id"], attempts=1, fence=1)
        turn = await api_services.worker.runner.run(job)
        assert turn.ended in ("done", "given_up"), (kind, turn)
    assert [line.message for line in caplog.records if line.levelno >= logging.WARNING] == []
