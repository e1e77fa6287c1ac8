"""Callers of the HTTP API: a client that carries one token, and the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
from fastapi import FastAPI

from app.auth.principal import Role
from app.auth.tokens import issue_token

SECRET = "a-secret-of-the-tests-of-the-http-layer"


def make_token(tenant_id: UUID | None, *roles: Role, subject: str = "ada", ttl: int = 3600) -> str:
    """A token as `knowledge token` would print it."""
    return issue_token(SECRET, tenant_id=tenant_id, roles=roles, subject=subject, ttl=ttl)


def open_client(app: FastAPI, address: str = "127.0.0.1") -> httpx.AsyncClient:
    """A client without a token whose requests seem to come from `address`."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app, client=(address, 40_000)), base_url="http://service.test"
    )


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller with a token."""

    http: httpx.AsyncClient
    tenant_id: UUID | None
    token: str

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Any request with the token."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("GET", path, **options)

    async def post(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return await self.request("POST", path, json=json, **options)

    async def patch(self, path: str, json: Any, **options: Any) -> httpx.Response:
        return await self.request("PATCH", path, json=json, **options)

    async def delete(self, path: str, **options: Any) -> httpx.Response:
        return await self.request("DELETE", path, **options)

    async def add(self, content: str, **fields: Any) -> dict[str, Any]:
        """Store an entry."""
        answer = await self.post("/knowledge/entries", {"content": content, **fields})
        assert answer.status_code == 201, answer.text
        entry: dict[str, Any] = answer.json()
        return entry

    async def search(self, query: str, **fields: Any) -> dict[str, Any]:
        """Search, and expect an answer."""
        answer = await self.post("/knowledge/search", {"query": query, **fields})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def find(self, query: str, **fields: Any) -> list[str]:
        """The contents of a keyword search's hits."""
        found = await self.search(query, **{"mode": "keyword", **fields})
        return [hit["content"] for hit in found["results"]]

    async def upload(self, name: str, data: bytes, media_type: str, **form: Any) -> httpx.Response:
        """Upload a file."""
        return await self.post("/knowledge/assets", files={"file": (name, data, media_type)}, data=form)
