"""A tenant's knowledge at a service elsewhere. The token determines tenant and actor; both arguments are ignored."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from app.cli.execution import Remote
from app.cli.remote.exchange import TIMEOUT, Exchange
from app.contract.access import AccessPatch, ChangedAccess, ItemKind, ItemReaders, ListedKind, SubjectAccess
from app.contract.administration import NewRevocation, NewTenant, RevokedToken, Stats, Tenant
from app.contract.assets import Asset, Upload
from app.contract.entries import BulkResponse, BulkResult, Entry, EntryDraft, RelatedResponse
from app.contract.erasures import Erasure, NewErasure, Release, Released
from app.contract.fields import Page
from app.contract.models import ModelChange, NewModelChange
from app.contract.results import SearchResult
from app.contract.search import SearchQuery, WhyNot, request_of
from app.contract.settings import SettingsPatch, TenantSettings
from app.contract.sources import Accepted, ItemState, Manifest, SourceItem, SourceStatus
from app.contract.validation import UNSET, given_fields
from app.contract.vocabulary import AssetSort, EntrySort
from app.errors import NotFound, SourceNotFound, TenantNotFound
from app.knowledge.paging import MAX_PAGE, NEWEST_FIRST
from app.knowledge.permissions import PLURALS

ENTRIES = "/knowledge/entries"


@dataclass(frozen=True, slots=True)
class RemoteSearches:
    """Searches."""

    exchange: Exchange

    async def search(self, tenant_id: UUID, query: SearchQuery, *, subject: str = "") -> SearchResult:
        """Search. Raises KnowledgeError."""
        return await self.exchange.read(SearchResult, "POST", "/knowledge/search", body=request_of(query))

    async def why_not(self, tenant_id: UUID, entry: UUID | str, query: SearchQuery) -> WhyNot:
        """Explain why an entry is not among the results. Raises KnowledgeError."""
        body = {"entry_id": str(entry), "request": request_of(query)}
        return await self.exchange.read(WhyNot, "POST", "/knowledge/search/why-not", body=body)


def body_of(request: Any) -> dict[str, Any]:
    """The body of a request: the fields that differ from their defaults."""
    pairs = ((field, getattr(request, field.name)) for field in fields(request))
    return {field.name: value for field, value in pairs if value != field.default}


@dataclass(frozen=True, slots=True)
class RemoteRelated:
    """Related entries."""

    exchange: Exchange

    async def related(
        self, tenant_id: UUID, entry_id: UUID, limit: int = 5, *, include_quarantined: bool = True
    ) -> RelatedResponse:
        """Find the entries that are related to an entry. Raises KnowledgeError."""
        path = f"{ENTRIES}/{entry_id}/related"
        return await self.exchange.read(RelatedResponse, "GET", path, params={"limit": limit})


@dataclass(frozen=True, slots=True)
class RemoteEntries:
    """Entries."""

    exchange: Exchange

    async def create(self, tenant_id: UUID, draft: EntryDraft, *, actor: str = "") -> tuple[Entry, bool]:
        """Store an entry; return it, and whether it is new. Raises KnowledgeError."""
        response = await self.exchange.send("POST", ENTRIES, body=draft.given())
        return self.exchange.parse(Entry, response.content), response.status_code == 201

    async def create_many(
        self, tenant_id: UUID, items: Sequence[EntryDraft], *, actor: str = ""
    ) -> Sequence[BulkResult]:
        """Store 1 to 1,000 entries. Raises KnowledgeError."""
        body = {"entries": [item.given() for item in items]}
        return (await self.exchange.read(BulkResponse, "POST", f"{ENTRIES}/bulk", body=body)).results

    async def get(self, tenant_id: UUID, entry_id: UUID) -> Entry:
        """One entry. Raises EntryNotFound."""
        return await self.read(tenant_id, entry_id)

    async def read(self, tenant_id: UUID, entry_id: UUID) -> Entry:
        """One entry. Raises EntryNotFound."""
        return await self.exchange.read(Entry, "GET", f"{ENTRIES}/{entry_id}")

    async def list_entries(
        self,
        tenant_id: UUID,
        *,
        limit: int = 50,
        cursor: str | None = None,
        entry_type: str | None = None,
        tag: str | None = None,
        asset_id: UUID | None = None,
        external_id: str | None = None,
        include_expired: bool = False,
        include_quarantined: bool = False,
        sort: EntrySort = NEWEST_FIRST,
    ) -> Page[Entry]:
        """A page of entries. Raises KnowledgeError."""
        params = {
            "limit": limit,
            "cursor": cursor,
            "entry_type": entry_type,
            "tag": tag,
            "asset_id": asset_id,
            "external_id": external_id,
            "include_expired": include_expired,
            "include_quarantined": include_quarantined,
            "sort": sort,
        }
        return await self.exchange.read(Page[Entry], "GET", ENTRIES, params=params)

    async def change(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        draft: EntryDraft,
        *,
        if_version: int | Collection[int] | None = None,
        actor: str = "",
    ) -> Entry:
        """Change the fields that are set. Raises KnowledgeError."""
        return await self.exchange.read(
            Entry, "PATCH", f"{ENTRIES}/{entry_id}", body=draft.given(), version=_one(if_version)
        )

    async def delete(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        *,
        if_version: int | Collection[int] | None = None,
        actor: str = "",
    ) -> None:
        """Delete an entry. Raises KnowledgeError."""
        await self.exchange.send("DELETE", f"{ENTRIES}/{entry_id}", version=_one(if_version))


def _one(versions: int | Collection[int] | None) -> int | None:
    """The version for If-Match; commands have at most one."""
    if versions is None or isinstance(versions, int):
        return versions
    (version,) = versions
    return version


ASSETS = "/knowledge/assets"
SOURCES = "/knowledge/sources"
LARGEST = 1 << 30
"""Bytes of a file that is read to be sent; the service has a limit of its own, and refuses more."""
SETTLING = (0.1, 0.3, 1.0, 3.0)
"""Seconds between checks of a source whose items have all ended: its worker records that a moment later."""


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
    """Sources; `max_deletions` is the default share, since the service does not report its own."""

    exchange: Exchange
    max_deletions: float = 0.2

    async def accept(self, tenant_id: UUID, name: str, manifest: Manifest, *, actor: str = "") -> tuple[Accepted, bool]:
        """Send a manifest. Raises KnowledgeError."""
        response = await self.exchange.send("PUT", _path_of(name), body=body_of(manifest))
        return self.exchange.parse(Accepted, response.content), response.status_code == 201

    async def get(self, tenant_id: UUID, name: str) -> SourceStatus:
        """One source. Raises SourceNotFound."""
        return await self.exchange.read(SourceStatus, "GET", _path_of(name))

    async def wait_until_indexed(self, tenant_id: UUID, name: str) -> SourceStatus:
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


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """Changes of who may read and change many items."""

    exchange: Exchange
    overview: RemoteAccessOverview

    async def change(self, tenant_id: UUID, patch: AccessPatch, *, actor: str = "") -> ChangedAccess:
        """Change the next page of items. Raises KnowledgeError."""
        body = body_of(patch)
        body |= {name: body_of(body[name]) for name in ("where", "readers", "writers") if name in body}
        return await self.exchange.read(ChangedAccess, "PATCH", "/knowledge/access", body=body)


@dataclass(frozen=True, slots=True)
class RemoteAccessOverview:
    """Who may read what, for an admin."""

    exchange: Exchange

    async def who(
        self, tenant_id: UUID, kind: ListedKind, key: UUID | str, *, reader: str | None = None
    ) -> ItemReaders:
        """Who may read and change an item. Raises KnowledgeError."""
        return await self.exchange.read(ItemReaders, "GET", f"/admin/access/{PLURALS[kind]}/{quote(str(key), safe='')}")

    async def what(
        self,
        tenant_id: UUID,
        subject: str,
        groups: Sequence[str] | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        reader: str | None = None,
    ) -> SubjectAccess:
        """The items that a person may read. Raises KnowledgeError."""
        params = {"subject": subject, "group": groups, "limit": limit, "cursor": cursor}
        return await self.exchange.read(SubjectAccess, "GET", "/admin/access/subject", params=params)


REVOKED = "/admin/revoked-tokens"
PLATFORM_REVOKED = "/admin/platform/revoked-tokens"


@dataclass(frozen=True, slots=True)
class RemoteRevocations:
    """Revoked tokens of the token's tenant."""

    exchange: Exchange

    async def revoke(self, tenant_id: UUID, revocation: NewRevocation, *, actor: str = "") -> RevokedToken:
        """Refuse the tenant's tokens with this `jti`. Raises KnowledgeError."""
        return await _revoke(self.exchange, REVOKED, revocation)

    async def list_revoked(
        self, tenant_id: UUID, *, limit: int, cursor: str | None, reader: str = ""
    ) -> Page[RevokedToken]:
        """A page of the revoked tokens. Raises KnowledgeError."""
        return await _list(self.exchange, REVOKED, limit, cursor)


@dataclass(frozen=True, slots=True)
class RemotePlatformRevocations:
    """Revoked tokens of platform admins."""

    exchange: Exchange

    async def revoke(self, revocation: NewRevocation, *, actor: str = "") -> RevokedToken:
        """Refuse platform admins' tokens with this `jti`. Raises KnowledgeError."""
        return await _revoke(self.exchange, PLATFORM_REVOKED, revocation)

    async def list_revoked(self, *, limit: int, cursor: str | None, reader: str = "") -> Page[RevokedToken]:
        """A page of the revoked tokens. Raises KnowledgeError."""
        return await _list(self.exchange, PLATFORM_REVOKED, limit, cursor)


async def _revoke(exchange: Exchange, path: str, revocation: NewRevocation) -> RevokedToken:
    return await exchange.read(RevokedToken, "POST", path, body=body_of(revocation))


async def _list(exchange: Exchange, path: str, limit: int, cursor: str | None) -> Page[RevokedToken]:
    return await exchange.read(Page[RevokedToken], "GET", path, params={"limit": limit, "cursor": cursor})


TENANTS = "/admin/tenants"
REEMBED = "/admin/reembed"
OWN = UUID(int=0)
"""Placeholder for the id of the token's tenant, which only the service has."""


@dataclass(frozen=True, slots=True)
class OwnTenant:
    """The tenant of the token."""

    id: UUID


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
            page = await self.exchange.read(Page[Tenant], "GET", TENANTS, params={"limit": MAX_PAGE, "cursor": cursor})
            found += page.items
            if (cursor := page.next_cursor) is None:
                return found

    async def create(self, tenant: NewTenant, *, actor: str) -> Tenant:
        """Create a tenant. Raises KnowledgeError."""
        return await self.exchange.read(Tenant, "POST", TENANTS, body=tenant)

    async def delete(self, tenant_id: UUID, *, actor: str) -> None:
        """Delete a tenant with all its data. Raises TenantNotFound."""
        await self.exchange.send("DELETE", f"{TENANTS}/{tenant_id}")

    async def read_settings(self, tenant_id: UUID, *, reader: str | None = None) -> TenantSettings:
        """The settings of the token's tenant. Raises KnowledgeError."""
        return await self.exchange.read(TenantSettings, "GET", "/admin/settings")

    async def change_settings(self, tenant_id: UUID, patch: SettingsPatch, *, actor: str = "") -> TenantSettings:
        """Change settings of the token's tenant. Raises KnowledgeError."""
        return await self.exchange.read(TenantSettings, "PATCH", "/admin/settings", body=patch.given())


@dataclass(frozen=True, slots=True)
class RemoteQuarantine:
    """The quarantine."""

    exchange: Exchange

    async def list_quarantined(self, tenant_id: UUID, *, limit: int = 50, reader: str | None = None) -> Page[Entry]:
        """The newest entries in quarantine. Raises KnowledgeError."""
        return await self.exchange.read(Page[Entry], "GET", "/admin/quarantine", params={"limit": limit})

    async def release(self, tenant_id: UUID, wanted: Release, *, actor: str = "") -> Sequence[UUID]:
        """Release entries, or the chunks of assets. Raises KnowledgeError."""
        answer = await self.exchange.read(Released, "POST", "/admin/quarantine/release", body=body_of(wanted))
        return answer.released

    async def find_kinds(self, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, ItemKind]:
        """Tell which of these ids are entries and which assets. Raises KnowledgeError."""
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
    """The administration of the tenant."""

    exchange: Exchange

    async def stats(self, tenant_id: UUID) -> Stats:
        """The tenant's statistics. Raises Forbidden for a token without the role of an admin."""
        return await self.exchange.read(Stats, "GET", "/admin/stats")

    async def subscriptions(self) -> list[dict[str, Any]]:
        """The tenant's subscriptions, newest first: one page has all. Raises KnowledgeError."""
        response = await self.exchange.send("GET", "/admin/subscriptions", params={"limit": MAX_PAGE})
        items: list[dict[str, Any]] = response.json()["items"]
        return items


class RemoteEmbedder:
    """The state of the provider, which a service does not report to its callers."""

    async def is_provider_away(self, tenant_id: UUID, *, within: float) -> bool:
        """Whether not to wait longer: callers ask after `within` seconds without progress."""
        return True


@dataclass(frozen=True, slots=True)
class RemoteErasures:
    """Erasures."""

    exchange: Exchange

    async def erase(self, tenant_id: UUID, wanted: NewErasure, *, actor: str = "") -> Erasure:
        """Erase an asset, an entry or everything of a subject. Raises KnowledgeError."""
        return await self.exchange.read(Erasure, "POST", "/admin/erasures", body=body_of(wanted))


@dataclass(frozen=True, slots=True)
class RemoteReembedding:
    """Changes of the embedding model."""

    exchange: Exchange

    async def start(self, tenant_id: UUID, wanted: NewModelChange, *, actor: str = "") -> ModelChange:
        """Start or resume a change to the only other model. Raises KnowledgeError."""
        return await self._read("POST", REEMBED, given_fields(wanted))

    async def rebuild(self, tenant_id: UUID, terms: NewModelChange, *, actor: str = "") -> ModelChange:
        """Replace the vectors of the model in use. Raises KnowledgeError."""
        model = (await RemoteAdministration(self.exchange).stats(tenant_id)).model
        named = {"provider": model.provider, "model": model.name, "dimensions": model.dimensions}
        return await self._read("POST", REEMBED, {**named, **given_fields(terms)})

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
        return await self.exchange.read(ModelChange, method, path, body=body)


@dataclass(frozen=True, slots=True)
class RemoteKnowledge:
    """A tenant's knowledge at a service elsewhere."""

    tenants: RemoteTenants
    access: RemoteAccess
    search: RemoteSearches
    entries: RemoteEntries
    related: RemoteRelated
    assets: RemoteAssets
    sources: RemoteSources
    source_uploads: RemoteSourceFiles
    administration: RemoteAdministration
    embedder: RemoteEmbedder
    erasures: RemoteErasures
    quarantine: RemoteQuarantine
    reembedding: RemoteReembedding
    revocations: RemoteRevocations
    platform_revocations: RemotePlatformRevocations


@contextlib.asynccontextmanager
async def open_remote(remote: Remote) -> AsyncIterator[RemoteKnowledge]:
    """Open a tenant's knowledge at a service elsewhere.

    Redirects are not followed, because they would take the token elsewhere.
    """
    async with httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as http:
        exchange = Exchange(remote, http)
        yield RemoteKnowledge(
            tenants=RemoteTenants(exchange),
            access=RemoteAccess(exchange, RemoteAccessOverview(exchange)),
            search=RemoteSearches(exchange),
            entries=RemoteEntries(exchange),
            related=RemoteRelated(exchange),
            assets=RemoteAssets(exchange),
            sources=RemoteSources(exchange),
            source_uploads=RemoteSourceFiles(exchange),
            administration=RemoteAdministration(exchange),
            embedder=RemoteEmbedder(),
            erasures=RemoteErasures(exchange),
            quarantine=RemoteQuarantine(exchange),
            reembedding=RemoteReembedding(exchange),
            revocations=RemoteRevocations(exchange),
            platform_revocations=RemotePlatformRevocations(exchange),
        )
