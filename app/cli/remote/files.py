"""Assets and sources at a service elsewhere. The token has the tenant and the actor: both arguments are ignored."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from app.cli.remote.exchange import Exchange
from app.db.queries.knowledge.assets import Asset
from app.db.queries.knowledge.source_items import SourceItem
from app.db.queries.knowledge.sources import SourceStatus
from app.errors import SourceNotFound
from app.knowledge.entries.drafts import UNSET
from app.knowledge.ingestion.assets import Upload
from app.knowledge.paging import NEWEST_FIRST, Page
from app.knowledge.sources.acceptance import Accepted, ItemState, Manifest
from app.knowledge.vocabulary import AssetSort

ASSETS = "/knowledge/assets"
SOURCES = "/knowledge/sources"
LARGEST = 1 << 30
"""Bytes of a file that is read to be sent; the service has a limit of its own, and refuses more."""
SETTLING = (0.1, 0.3, 1.0, 3.0)
"""Seconds between looks at a source whose items have all ended: its worker notes that a moment later."""


async def upload_file(exchange: Exchange, upload: Upload, **place: str) -> tuple[Asset, bool]:
    """Send a file; return its asset, and whether its ingestion was queued. Raises KnowledgeError."""
    data: dict[str, Any] = dict(place)
    if upload.external_id is not None:
        data["external_id"] = upload.external_id
    for name in ("tags", "roles", "readers", "writers"):
        if (value := getattr(upload, name)) is not UNSET:
            data[name] = list(value or ())
    if upload.metadata is not UNSET:
        data["metadata"] = json.dumps(upload.metadata)
    part = (upload.name, upload.data, upload.declared_type or "application/octet-stream")
    response = await exchange.send("POST", ASSETS, data=data, files={"file": part})
    return exchange.parse(Asset, response.content), response.status_code == 202


@dataclass(slots=True)
class RemoteAssets:
    """Assets."""

    exchange: Exchange
    max_bytes: int = LARGEST

    def check_size(self, size: int) -> None:
        """The service checks the size."""

    async def upload(self, tenant_id: UUID, upload: Upload, *, actor: str = "") -> tuple[Asset, bool]:
        """Send a file; return its asset, and whether its ingestion was queued. Raises KnowledgeError."""
        return await upload_file(self.exchange, upload)

    async def get(self, tenant_id: UUID, asset_id: UUID) -> Asset:
        """One asset. Raises AssetNotFound."""
        return await self.exchange.read(Asset, "GET", f"{ASSETS}/{asset_id}")

    async def list_assets(
        self,
        tenant_id: UUID,
        *,
        limit: int = 50,
        cursor: str | None = None,
        status: str | None = None,
        sort: AssetSort = NEWEST_FIRST,
    ) -> Page[Asset]:
        """A page of assets. Raises KnowledgeError."""
        params = {"limit": limit, "cursor": cursor, "status": status, "sort": sort}
        return await self.exchange.read(Page[Asset], "GET", ASSETS, params=params)

    async def text(self, tenant_id: UUID, asset_id: UUID) -> str:
        """The extracted text. Raises KnowledgeError."""
        return (await self.exchange.send("GET", f"{ASSETS}/{asset_id}/text")).content.decode()

    async def retry(self, tenant_id: UUID, asset_id: UUID, *, actor: str = "") -> Asset:
        """Ingest a failed asset again. Raises KnowledgeError."""
        return await self.exchange.read(Asset, "POST", f"{ASSETS}/{asset_id}/retry")

    async def delete(self, tenant_id: UUID, asset_id: UUID, *, actor: str = "") -> None:
        """Delete an asset with its chunks. Raises AssetNotFound."""
        await self.exchange.send("DELETE", f"{ASSETS}/{asset_id}")


@dataclass(frozen=True, slots=True)
class RemoteSources:
    """Sources; `max_deletions` is the default share, since the service does not tell its own."""

    exchange: Exchange
    max_deletions: float = 0.2

    async def accept(self, tenant_id: UUID, name: str, manifest: Manifest, *, actor: str = "") -> Accepted:
        """Send a manifest. Raises KnowledgeError."""
        given = {
            "items": list(manifest.items),
            "origin": manifest.origin,
            "run": manifest.run,
            "listed_at": manifest.listed_at,
            "confirm_deletions": manifest.confirm_deletions,
            "allow_empty": manifest.allow_empty,
            "retry": manifest.retry,
            **{
                name: value
                for name in ("readers", "writers")
                if (value := getattr(manifest, name)) is not UNSET
            },
        }
        body = {key: value for key, value in given.items() if value is not None}
        response = await self.exchange.send("PUT", _path_of(name), body=body)
        answer = response.json()
        counts = {key: int(answer[key]) for key in ("added", "changed", "moved", "removed")}
        status = self.exchange.parse(SourceStatus, response.content)
        return Accepted(status, response.status_code == 201, **counts)

    async def get(self, tenant_id: UUID, name: str) -> SourceStatus:
        """One source. Raises SourceNotFound."""
        return await self.exchange.read(SourceStatus, "GET", _path_of(name))

    async def settle(self, tenant_id: UUID, name: str) -> SourceStatus:
        """The source once it has recorded whether it agrees with its origin. Raises SourceNotFound."""
        for seconds in SETTLING:
            found = await self.get(tenant_id, name)
            if found.agrees or found.pending or found.missing:
                return found
            await asyncio.sleep(seconds)
        return await self.get(tenant_id, name)

    async def list_items(
        self,
        tenant_id: UUID,
        name: str,
        *,
        state: ItemState | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SourceItem]:
        """A page of items. Raises SourceNotFound."""
        params = {"state": state, "limit": limit, "cursor": cursor}
        return await self.exchange.read(Page[SourceItem], "GET", _path_of(name) + "/items", params=params)


@dataclass(frozen=True, slots=True)
class RemoteSourceFiles:
    """Files of sources."""

    exchange: Exchange

    async def upload(
        self, tenant_id: UUID, source: str, run: int, upload: Upload, *, actor: str = ""
    ) -> tuple[Asset, bool]:
        """Send the file of an item. Raises KnowledgeError."""
        return await upload_file(self.exchange, upload, source=source, run=str(run))


def _path_of(name: str) -> str:
    """The path of a source. Raises SourceNotFound for a name that a path cannot contain."""
    if name in ("", ".", ".."):
        raise SourceNotFound("there is no source with this name")
    return f"{SOURCES}/{quote(name, safe='')}"
