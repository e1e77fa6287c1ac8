"""Administration at a service elsewhere. The token has the tenant and the actor: both arguments are ignored."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from uuid import UUID

import orjson

from app.cli.remote.exchange import Exchange
from app.db.queries.knowledge.entries import Entry
from app.db.queries.knowledge.quarantine import ItemKind
from app.errors import NotFound, TenantNotFound
from app.knowledge.administration.service import TenantStatistics
from app.knowledge.erasure.erasure import Erasure
from app.knowledge.paging import MAX_PAGE, Page
from app.knowledge.permissions.overview import PLURALS
from app.knowledge.reembedding.change import ModelChange
from app.knowledge.reembedding.machine import Terms
from app.knowledge.tenants.directory import Tenant
from app.knowledge.tenants.settings import TenantSettings

TENANTS = "/admin/tenants"
REEMBED = "/admin/reembed"
OWN = UUID(int=0)
"""Stands for the tenant of the token, whose id only the service knows."""


@dataclass(frozen=True, slots=True)
class OwnTenant:
    """The tenant of the token."""

    id: UUID


@dataclass(frozen=True, slots=True)
class Released:
    """The entries that were released from quarantine."""

    released: list[UUID]


@dataclass(frozen=True, slots=True)
class RemoteTenants:
    """The tenant of the token, and for the token of a platform admin all tenants."""

    exchange: Exchange

    async def find(self, slug: str) -> OwnTenant | Tenant:
        """The tenant of the token for an empty slug, else the tenant with this slug. Raises TenantNotFound."""
        if not slug:
            return OwnTenant(OWN)
        for tenant in await self.list_tenants():
            if tenant.slug == slug:
                return tenant
        raise TenantNotFound(f"there is no tenant {slug!r}")

    async def list_tenants(self, *, reader: str | None = None) -> list[Tenant]:
        """All tenants, oldest first. Raises Forbidden without the role of a platform admin."""
        found: list[Tenant] = []
        cursor: str | None = None
        while True:
            page = await self.exchange.read(
                Page[Tenant], "GET", TENANTS, params={"limit": MAX_PAGE, "cursor": cursor}
            )
            found += page.items
            if (cursor := page.next_cursor) is None:
                return found

    async def create(self, slug: str, name: str | None = None, *, actor: str) -> Tenant:
        """Create a tenant. Raises KnowledgeError."""
        body = {"slug": slug} if name is None else {"slug": slug, "name": name}
        return await self.exchange.read(Tenant, "POST", TENANTS, body=body)

    async def delete(self, tenant_id: UUID, *, actor: str) -> None:
        """Delete a tenant with all its data. Raises TenantNotFound."""
        await self.exchange.send("DELETE", f"{TENANTS}/{tenant_id}")

    async def read_settings(self, tenant_id: UUID, *, reader: str | None = None) -> TenantSettings:
        """The settings of the token's tenant. Raises KnowledgeError."""
        return await self.exchange.read(TenantSettings, "GET", "/admin/settings")

    async def change_settings(
        self, tenant_id: UUID, changes: Mapping[str, Any], *, actor: str = ""
    ) -> TenantSettings:
        """Change settings of the token's tenant. Raises KnowledgeError."""
        return await self.exchange.read(TenantSettings, "PATCH", "/admin/settings", body=changes)


@dataclass(frozen=True, slots=True)
class RemoteQuarantine:
    """The quarantine."""

    exchange: Exchange

    async def list_quarantined(
        self, tenant_id: UUID, *, limit: int = 50, reader: str | None = None
    ) -> Page[Entry]:
        """The newest entries in quarantine. Raises KnowledgeError."""
        return await self.exchange.read(Page[Entry], "GET", "/admin/quarantine", params={"limit": limit})

    async def release(
        self, tenant_id: UUID, *, entry_ids: Sequence[UUID], asset_ids: Sequence[UUID], actor: str = ""
    ) -> list[UUID]:
        """Release entries, or the chunks of assets. Raises KnowledgeError."""
        body = {"entry_ids": list(entry_ids), "asset_ids": list(asset_ids)}
        given = {name: ids for name, ids in body.items() if ids}
        answer = await self.exchange.read(Released, "POST", "/admin/quarantine/release", body=given)
        return answer.released

    async def find_kinds(self, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, ItemKind]:
        """Which of these ids are those of entries or of assets. Raises KnowledgeError."""
        found: dict[UUID, ItemKind] = {}
        kinds: Sequence[ItemKind] = ("entry", "asset")
        for item, kind in product(ids, kinds):
            if item not in found:
                with contextlib.suppress(NotFound):
                    await self.exchange.send("GET", f"/knowledge/{PLURALS[kind]}/{item}")
                    found[item] = kind
        return found


@dataclass(frozen=True, slots=True)
class RemoteAdministration:
    """What the admin of the tenant sees."""

    exchange: Exchange

    async def stats(self, tenant_id: UUID) -> TenantStatistics:
        """The tenant's statistics. Raises Forbidden for a token without the role of an admin."""
        return await self.exchange.read(TenantStatistics, "GET", "/admin/stats")

    async def subscriptions(self) -> list[dict[str, Any]]:
        """The tenant's subscriptions, newest first: one page has all. Raises KnowledgeError."""
        response = await self.exchange.send("GET", "/admin/subscriptions", params={"limit": MAX_PAGE})
        items: list[dict[str, Any]] = response.json()["items"]
        return items


class RemoteEmbedder:
    """The state of the provider, which a service does not tell its callers."""

    async def is_provider_away(self, tenant_id: UUID, *, within: float) -> bool:
        """Whether not to wait longer: callers ask after `within` seconds without progress."""
        return True


@dataclass(frozen=True, slots=True)
class RemoteErasures:
    """Erasures."""

    exchange: Exchange

    async def erase(
        self,
        tenant_id: UUID,
        *,
        asset_id: UUID | None = None,
        entry_id: UUID | None = None,
        subject: str | None = None,
        actor: str = "",
    ) -> Erasure:
        """Erase an asset, an entry or everything of a subject. Raises KnowledgeError."""
        given = {"asset_id": asset_id, "entry_id": entry_id, "subject": subject}
        body = {name: value for name, value in given.items() if value is not None}
        return await self.exchange.read(Erasure, "POST", "/admin/erasures", body=body)


@dataclass(frozen=True, slots=True)
class RemoteReembedding:
    """Changes of the embedding model."""

    exchange: Exchange

    async def start(self, tenant_id: UUID, *, terms: Terms | None = None, actor: str = "") -> ModelChange:
        """Start or resume a change to the only other model. Raises KnowledgeError."""
        return await self._read("POST", REEMBED, dict(terms or {}))

    async def rebuild(self, tenant_id: UUID, *, terms: Terms | None = None, actor: str = "") -> ModelChange:
        """Replace the vectors of the model in use. Raises KnowledgeError."""
        model = (await RemoteAdministration(self.exchange).stats(tenant_id)).model
        named = {"provider": model.provider, "model": model.name, "dimensions": model.dimensions}
        return await self._read("POST", REEMBED, {**named, **(terms or {})})

    async def status(self, tenant_id: UUID, *, reader: str | None = None) -> ModelChange:
        """The change in progress. Raises ModelChangeNotFound."""
        return await self._read("GET", REEMBED)

    async def switch(self, tenant_id: UUID, *, back: bool = False, actor: str = "") -> ModelChange:
        """Switch to the new model, or back to the old one. Raises KnowledgeError."""
        return await self._read("POST", f"{REEMBED}/switch{'-back' if back else ''}")

    async def end(self, tenant_id: UUID, *, actor: str = "") -> None:
        """End the change. Raises ModelChangeNotFound."""
        await self.exchange.send("DELETE", REEMBED)

    async def _read(self, method: str, path: str, body: Any = None) -> ModelChange:
        response = await self.exchange.send(method, path, body=body)
        answer = response.json()
        for model in ("old", "new"):  # an answer names the models without their figures
            answer[model] |= {"max_tokens": 0, "similarity_threshold": 0.0}
        return self.exchange.parse(ModelChange, orjson.dumps(answer))
