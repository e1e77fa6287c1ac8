"""What callers send, and what the operator keeps secret, is in no output of a real service at level debug."""

from __future__ import annotations

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


class Mouth:
    """A caller whose answers of 400 and above are kept."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.refusals: list[str] = []

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self.caller.request(method, path, **options)
        if answer.status_code >= 400:
            self.refusals.append(answer.text + json.dumps(dict(answer.headers)))
        return answer


async def say_everything(mouth: Mouth, wire: WireServer, provider: FaultProxy, database: FaultProxy) -> None:
    """Put the canary wherever a caller can put a text, in good times and in bad."""
    entry = {
        "content": f"{CANARY} sings", "title": CANARY, "tags": [CANARY], "metadata": {CANARY: CANARY},
        "external_id": CANARY,
    }  # fmt: skip
    await say_it(mouth, entry)
    # A provider that quotes what it was sent, and one that is silent.
    wire.script = [Reply(400, f"refused: {CANARY} with {KEY}".encode()), Reply(500, CANARY.encode())] * 20
    await say_it(mouth, {**entry, "content": f"{CANARY} wakes", "external_id": None})
    wire.script = [Reply(body=f"<html>{CANARY} {KEY}</html>".encode())] * 20
    await mouth.send("POST", "/knowledge/search", json={"query": f"{CANARY} where"})
    wire.script.clear()
    provider.fault = "reset"
    await mouth.send("POST", "/knowledge/search", json={"query": f"{CANARY} who"})
    provider.fault = "none"
    # A database that dies under its statements.
    for fault in ("reset", "none"):
        database.fault = fault
        await mouth.send("POST", "/knowledge/entries", json={**entry, "content": f"{CANARY} {fault}"})
        await mouth.send("POST", "/knowledge/search", json={"query": CANARY, "mode": "keyword"})


async def say_it(mouth: Mouth, entry: dict[str, Any]) -> None:
    made = await mouth.send("POST", "/knowledge/entries", json=entry)
    path = f"/knowledge/entries/{made.json()['id']}"
    await mouth.send("PATCH", path, json={"content": f"{entry['content']} again"})
    await mouth.send("PATCH", path, json={"language": CANARY})
    bulk = {
        "entries": [
            {"content": CANARY},
            {"content": CANARY, CANARY: 1},
            {"content": "x", "parent_id": CANARY},
        ]
    }
    await mouth.send("POST", "/knowledge/entries/bulk", json=bulk)
    for name, data, kind in (
        (f"{CANARY}.txt", CANARY.encode(), "text/plain"),
        (f"{CANARY}.pdf", b"%PDF-1.4 " + CANARY.encode(), "application/pdf"),
        (f"{CANARY}.png", b"\x89PNG" + CANARY.encode(), f"image/{CANARY}"),
    ):
        form = {"metadata": json.dumps({CANARY: CANARY}), "tags": CANARY}
        await mouth.send("POST", "/knowledge/assets", files={"file": (name, data, kind)}, data=form)
    for mode in ("hybrid", "semantic", "keyword"):
        body = {"query": f"{CANARY} {mode}", "mode": mode, "explain": True, "tags": [CANARY]}
        await mouth.send("POST", "/knowledge/search", json=body)
    await mouth.send("POST", "/knowledge/search", content=f'{{"query": "{CANARY}"'.encode())
    await mouth.send("POST", "/knowledge/search", json={"query": CANARY, "cursor": "AAAA"})
    await mouth.send("POST", "/knowledge/search", json={"query": CANARY, "limit": 0})
    await mouth.send("GET", "/knowledge/entries", params={"tag": CANARY, "external_id": CANARY})
    await mouth.send("GET", f"/{CANARY}/{CANARY}?{CANARY}={CANARY}")
    for token in (CANARY, mouth.caller.token[:-4] + "AAAA", f"{CANARY}.{CANARY}.{CANARY}"):
        refused = await mouth.caller.http.get(
            "/knowledge/entries", headers={"Authorization": f"Bearer {token}"}
        )
        assert refused.status_code == 401
        mouth.refusals.append(refused.text)


async def serve_and_say(service: ServedProcess, mouth: Mouth, *faults: Any) -> str:
    """Returns the metrics at the end."""
    await say_everything(mouth, *faults)
    async with asyncio.timeout(30):
        while "job" not in service.read_output():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    metrics = (await mouth.caller.http.get("/metrics")).text
    assert await service.terminate() == 0
    return metrics


@pytest.mark.slow
async def test_nothing_said_is_in_any_output(
    openai_database: TestDatabase, wire: WireServer, provider_proxy: FaultProxy, tmp_path: Path
) -> None:
    provider = build_provider(
        ProviderConfig("openai", "text-embedding-3-small", DIMENSIONS, base_url=wire.url)
    )
    direct = Database(openai_database.service_dsn, pool_size=1)
    services = await build_services(direct, provider)
    tenant = await services.tenants.create("canaries", actor="test")
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
            mouth = Mouth(Caller(http, tenant.id, token))
            metrics = await serve_and_say(service, mouth, wire, provider_proxy, database)
    await provider.close()
    await direct.close()
    lines = [json.loads(line) for line in service.read_output().splitlines()]
    about_requests = [line for line in lines if line["message"] == "request"]
    assert len(about_requests) > 30
    assert {line["level"] for line in lines} >= {"debug", "info", "warning"}
    for line in about_requests:
        assert {"request_id", "method", "route", "status", "milliseconds", "tenant_id"} <= set(line)
    assert str(tenant.id) in {line["tenant_id"] for line in about_requests}
    assert len(mouth.refusals) > 15
    assert "knowledge_requests_total" in metrics
    secrets = [CANARY, KEY, SECRET, token, token.rpartition(".")[2], PASSWORDS[SERVICE], quote(str(socket))]
    for secret in secrets:
        assert [line for line in lines if secret in json.dumps(line)] == [], secret
        assert secret not in metrics
        assert [text for text in mouth.refusals if secret in text] == [], secret
