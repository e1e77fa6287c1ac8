"""Revoked tokens at a service elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app.cli.remote.exchange import Exchange
from app.db.queries.tenants.revocations import RevokedToken
from app.knowledge.paging import Page

REVOKED = "/admin/revoked-tokens"
PLATFORM_REVOKED = "/admin/platform/revoked-tokens"


@dataclass(frozen=True, slots=True)
class RemoteRevocations:
    """Revoked tokens of the token's tenant."""

    exchange: Exchange

    async def revoke(self, tenant_id: UUID, token_id: str, *, actor: str = "") -> RevokedToken:
        """Refuse the tenant's tokens with this `jti`. Raises KnowledgeError."""
        return await _revoke(self.exchange, REVOKED, token_id)

    async def list_revoked(
        self, tenant_id: UUID, *, limit: int, cursor: str | None, reader: str = ""
    ) -> Page[RevokedToken]:
        """A page of the revoked tokens. Raises KnowledgeError."""
        return await _list(self.exchange, REVOKED, limit, cursor)


@dataclass(frozen=True, slots=True)
class RemotePlatformRevocations:
    """Revoked tokens of platform admins."""

    exchange: Exchange

    async def revoke(self, token_id: str, *, actor: str = "") -> RevokedToken:
        """Refuse platform admins' tokens with this `jti`. Raises KnowledgeError."""
        return await _revoke(self.exchange, PLATFORM_REVOKED, token_id)

    async def list_revoked(self, *, limit: int, cursor: str | None, reader: str = "") -> Page[RevokedToken]:
        """A page of the revoked tokens. Raises KnowledgeError."""
        return await _list(self.exchange, PLATFORM_REVOKED, limit, cursor)


async def _revoke(exchange: Exchange, path: str, token_id: str) -> RevokedToken:
    return await exchange.read(RevokedToken, "POST", path, body={"token_id": token_id})


async def _list(exchange: Exchange, path: str, limit: int, cursor: str | None) -> Page[RevokedToken]:
    return await exchange.read(Page[RevokedToken], "GET", path, params={"limit": limit, "cursor": cursor})
