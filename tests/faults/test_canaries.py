"""No output of a real service at level debug contains caller data or secrets."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.auth.principal import Role
from app.composition.database import SERVICE
from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.embeddings.factory import ProviderConfig, build_provider
from tests.faults.conftest import dsn_through
from tests.faults.proxy import FaultProxy, proxy_to
from tests.faults.service import ServedProcess, served
from tests.fixtures.database.cluster import PASSWORDS, TestDatabase
from tests.fixtures.http.callers import SECRET, Caller, make_token
from tests.fixtures.providers.wire import DIMENSIONS, Reply, WireServer

CANARY = "canarybluebird"
KEY = "sk-canarykingfisher"


class RecordingCaller:
    """A caller that records its responses of 400 and above."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.refusals: list[str] = []

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self.caller.request(method, path, **options)
        if answer.status_code >= 400:
            self.refusals.append(answer.text + json.dumps(dict(answer.headers)))
        return answer


async def send_everywhere(
    sender: RecordingCaller, wire: WireServer, provider: FaultProxy, database: FaultProxy
) -> None:
    """Send the canary in every field that accepts text, with working and with failing dependencies."""
    entry = {
        "content": f"{CANARY} sings", "title": CANARY, "tags": [CANARY], "metadata": {CANARY: CANARY},
        "external_id": CANARY,
    }  # fmt: skip
    await send_in_each_field(sender, entry)
    # A provider that repeats its input in an error, and a silent one.
    wire.script = [Reply(400, f"refused: {CANARY} with {KEY}".encode()), Reply(500, CANARY.encode())] * 20
    await send_in_each_field(sender, {**entry, "content": f"{CANARY} wakes", "external_id": None})
    wire.script = [Reply(body=f"<html>{CANARY} {KEY}</html>".encode())] * 20
    await sender.send("POST", "/knowledge/search", json={"query": f"{CANARY} where"})
    wire.script.clear()
    provider.fault = "reset"
    await sender.send("POST", "/knowledge/search", json={"query": f"{CANARY} who"})
    provider.fault = "none"
    # A database whose connections are reset while statements run.
    for fault in ("reset", "none"):
        database.fault = fault
        await sender.send("POST", "/knowledge/entries", json={**entry, "content": f"{CANARY} {fault}"})
        await sender.send("POST", "/knowledge/search", json={"query": CANARY, "mode": "keyword"})


async def send_in_each_field(sender: RecordingCaller, entry: dict[str, Any]) -> None:
    made = await sender.send("POST", "/knowledge/entries", json=entry)
    path = f"/knowledge/entries/{made.json()['id']}"
    await sender.send("PATCH", path, json={"content": f"{entry['content']} again"})
    await sender.send("PATCH", path, json={"language": CANARY})
    bulk = {"entries": [{"content": CANARY}, {"content": CANARY, CANARY: 1}, {"content": "x", "parent_id": CANARY}]}
    await sender.send("POST", "/knowledge/entries/bulk", json=bulk)
    for name, data, kind in (
        (f"{CANARY}.txt", CANARY.encode(), "text/plain"),
        (f"{CANARY}.pdf", b"%PDF-1.4 " + CANARY.encode(), "application/pdf"),
        (f"{CANARY}.png", b"\x89PNG" + CANARY.encode(), f"image/{CANARY}"),
    ):
        form = {"metadata": json.dumps({CANARY: CANARY}), "tags": CANARY}
        await sender.send("POST", "/knowledge/assets", files={"file": (name, data, kind)}, data=form)
    for mode in ("hybrid", "semantic", "keyword"):
        body = {"query": f"{CANARY} {mode}", "mode": mode, "explain": True, "tags": [CANARY]}
        await sender.send("POST", "/knowledge/search", json=body)
    await sender.send("POST", "/knowledge/search", content=f'{{"query": "{CANARY}"'.encode())
    await sender.send("POST", "/knowledge/search", json={"query": CANARY, "cursor": "AAAA"})
    await sender.send("POST", "/knowledge/search", json={"query": CANARY, "limit": 0})
    await sender.send("GET", "/knowledge/entries", params={"tag": CANARY, "external_id": CANARY})
    await sender.send("GET", f"/{CANARY}/{CANARY}?{CANARY}={CANARY}")
    for token in (CANARY, sender.caller.token[:-4] + "AAAA", f"{CANARY}.{CANARY}.{CANARY}"):
        refused = await sender.caller.http.get("/knowledge/entries", headers={"Authorization": f"Bearer {token}"})
        assert refused.status_code == 401
        sender.refusals.append(refused.text)


async def run_service(service: ServedProcess, sender: RecordingCaller, *faults: Any) -> str:
    """Returns the metrics at the end."""
    await send_everywhere(sender, *faults)
    async with asyncio.timeout(30):
        while "job" not in service.read_output():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    metrics = (await sender.caller.http.get("/metrics")).text
    assert await service.terminate() == 0
    return metrics


@pytest.mark.slow
async def test_output_contains_no_canary(
    openai_database: TestDatabase, wire: WireServer, provider_proxy: FaultProxy, tmp_path: Path
) -> None:
    provider = build_provider(ProviderConfig("openai", "text-embedding-3-small", DIMENSIONS, base_url=wire.url))
    direct = Database(openai_database.service_dsn, pool_size=1)
    services = await build_services(direct, provider)
    tenant = await services.tenants.create(NewTenant("canaries"), actor="test")
    token = make_token(tenant.id, Role.TENANT_ADMIN)
    socket = Path(openai_database.address.socket_dir) / ".s.PGSQL.5432"
    async with proxy_to(socket) as database:
        settings = {
            "DATABASE_URL": dsn_through(database, openai_database.name),
            "EMBEDDING_PROVIDER": "openai",
            "EMBEDDING_DIMENSIONS": str(DIMENSIONS),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{provider_proxy.port}/v1",
            "OPENAI_API_KEY": KEY,
            "JWT_SECRET": SECRET,
            "LOG_LEVEL": "debug",
            "KB_LOG_FORMAT": "json",
            "KB_DRAIN_SECONDS": "0",
        }
        async with (
            served(settings, tmp_path) as service,
            httpx.AsyncClient(base_url=service.url, trust_env=False, timeout=30) as http,
        ):
            sender = RecordingCaller(Caller(http, tenant.id, token))
            made = await sender.send("POST", "/admin/keys", json={"name": "canaries", "role": "creator"})
            key = made.json()["key"]
            by_key = RecordingCaller(Caller(http, tenant.id, key))
            for text in ("again", "and again"):
                await by_key.send("POST", "/knowledge/entries", json={"content": f"{CANARY} {text}"})
            metrics = await run_service(service, sender, wire, provider_proxy, database)
    await provider.close()
    await direct.close()
    lines = [json.loads(line) for line in service.read_output().splitlines()]
    about_requests = [line for line in lines if line["message"] == "request"]
    assert len(about_requests) > 30
    assert {line["level"] for line in lines} >= {"debug", "info", "warning"}
    for line in about_requests:
        assert {"request_id", "method", "route", "status", "milliseconds", "tenant_id"} <= set(line)
    assert str(tenant.id) in {line["tenant_id"] for line in about_requests}
    assert len(sender.refusals) > 15
    assert "knowledge_requests_total" in metrics
    secrets = [CANARY, KEY, SECRET, key, token, token.rpartition(".")[2], PASSWORDS[SERVICE], quote(str(socket))]
    for secret in secrets:
        assert [line for line in lines if secret in json.dumps(line)] == [], secret
        assert secret not in metrics
        assert [text for text in sender.refusals if secret in text] == [], secret
