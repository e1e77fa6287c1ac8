"""Administration with both clients, and the address and token of the environment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from app.auth.principal import Role
from knowledge_client import Conflict, InvalidInput, KnowledgeClient, NotFound
from tests.client.callers import ClientCaller, make_client
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.running_service import RunningService


async def test_an_admin_reads_and_changes_the_tenant(call: ClientCaller) -> None:
    await call("create_entry", "The harbour opens at six.", tags=["port"])
    statistics = await call("get_statistics")
    assert (statistics.entries, statistics.model.dimensions) == (1, 384)
    assert statistics.limits["entries"].used == 1
    changed = await call("change_settings", {"keep_query_text": True, "limits": {"entries": 5}})
    assert changed == await call("get_settings")
    assert (changed.keep_query_text, changed.limits["entries"]) == (True, 5)
    with pytest.raises(InvalidInput, match="colour"):
        await call("change_settings", {"colour": "blue"})
    found = await call("search", "harbour")
    receipt = await call("get_search_receipt", found.metadata.search_id)
    assert (receipt.query, receipt.result_count, len(receipt.ranking)) == ("harbour", 1, 1)
    assert (await call("get_feedback_report")).queries_kept
    actions = [record.action for record in await call("iterate_audit", limit=2)]
    assert {"entry.write", "settings.update"} <= set(actions)
    with pytest.raises(NotFound):
        await call("get_model_change")
    with pytest.raises(NotFound):
        await call("end_model_change")


async def test_an_admin_revokes_a_token(call: ClientCaller) -> None:
    token_id = str(uuid4())
    until = datetime.now(UTC) + timedelta(hours=1)
    revoked = await call("revoke_token", token_id, expires_at=until)
    assert revoked.token_id == token_id
    assert [one.token_id for one in await call("iterate_revoked_tokens")] == [token_id]


async def test_a_platform_admin_manages_tenants(service: RunningService, live_kind: str) -> None:
    call = make_client(live_kind, service.url, make_token(None, Role.PLATFORM_ADMIN))
    made = await call("create_tenant", "made-by-client", name="Made")
    with pytest.raises(Conflict):
        await call("create_tenant", "made-by-client")
    assert made in await call("iterate_tenants", limit=200)
    limits = await call("change_tenant_limits", made.id, {"entries": 7})
    assert limits.limits["entries"] == 7
    assert await call("delete_tenant", made.id) is None
    with pytest.raises(NotFound):
        await call("change_tenant_limits", made.id, {"entries": 7})
    await call.close()


def test_address_and_token_come_from_the_environment(
    service: RunningService, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("KB_URL", "KB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="url: is required, unless KB_URL is set"):
        KnowledgeClient()
    monkeypatch.setenv("KB_URL", f"{service.url}/")
    with pytest.raises(ValueError, match="token: is required, unless KB_TOKEN is set"):
        KnowledgeClient()
    monkeypatch.setenv("KB_TOKEN", token)
    with KnowledgeClient() as client:
        assert client.list_entries().items == []
