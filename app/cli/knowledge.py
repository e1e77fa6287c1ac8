"""The interface to a tenant's knowledge for commands: services in this process, or a remote service.

`Services` and `RemoteKnowledge` both have these parts, so each command is written once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

from app.contract.access import AccessPatch, ChangedAccess, ItemReaders, ListedKind, SubjectAccess
from app.contract.administration import Stats
from app.contract.assets import Asset, Upload
from app.contract.entries import BulkResult, Entry, EntryDraft, RelatedResponse
from app.contract.erasures import Erasure, NewErasure
from app.contract.fields import Page
from app.contract.results import SearchResult
from app.contract.search import SearchQuery, WhyNot
from app.contract.sources import SourceStatus
from app.contract.vocabulary import AssetSort, EntrySort
from app.knowledge.sources.run import Sources as RunSources
from app.knowledge.sources.run import Uploads


class FoundTenant(Protocol):
    """A tenant that exists."""

    @property
    def id(self) -> UUID: ...


class Tenants(Protocol):
    """The tenants that the caller may use."""

    async def find(self, slug: str) -> FoundTenant: ...


class Searches(Protocol):
    """Searches, and why an entry is not among their results."""

    async def search(self, tenant_id: UUID, query: SearchQuery, *, subject: str = ...) -> SearchResult: ...

    async def why_not(self, tenant_id: UUID, entry: UUID | str, query: SearchQuery) -> WhyNot: ...


class Entries(Protocol):
    """The entries."""

    async def create(self, tenant_id: UUID, draft: EntryDraft, *, actor: str = ...) -> tuple[Entry, bool]: ...

    async def create_many(
        self, tenant_id: UUID, items: Sequence[EntryDraft], *, actor: str = ...
    ) -> Sequence[BulkResult]: ...

    async def get(self, tenant_id: UUID, entry_id: UUID) -> Entry: ...

    async def read(self, tenant_id: UUID, entry_id: UUID) -> Entry: ...

    async def list_entries(
        self,
        tenant_id: UUID,
        *,
        limit: int = ...,
        cursor: str | None = ...,
        entry_type: str | None = ...,
        tag: str | None = ...,
        asset_id: UUID | None = ...,
        external_id: str | None = ...,
        include_expired: bool = ...,
        include_quarantined: bool = ...,
        sort: EntrySort = ...,
    ) -> Page[Entry]: ...

    async def change(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        draft: EntryDraft,
        *,
        if_version: int | Collection[int] | None = ...,
        actor: str = ...,
    ) -> Entry: ...

    async def delete(
        self,
        tenant_id: UUID,
        entry_id: UUID,
        *,
        if_version: int | Collection[int] | None = ...,
        actor: str = ...,
    ) -> None: ...


class RelatedEntries(Protocol):
    """The entries that are related to an entry."""

    async def related(
        self, tenant_id: UUID, entry_id: UUID, limit: int = ..., *, include_quarantined: bool = ...
    ) -> RelatedResponse: ...


class Assets(Protocol):
    """The assets."""

    max_bytes: int

    def check_size(self, size: int) -> None: ...

    async def upload(self, tenant_id: UUID, upload: Upload, *, actor: str = ...) -> tuple[Asset, bool]: ...

    async def get(self, tenant_id: UUID, asset_id: UUID) -> Asset: ...

    async def list_assets(
        self,
        tenant_id: UUID,
        *,
        limit: int = ...,
        cursor: str | None = ...,
        status: str | None = ...,
        sort: AssetSort = ...,
    ) -> Page[Asset]: ...

    async def text(self, tenant_id: UUID, asset_id: UUID) -> str: ...

    async def retry(self, tenant_id: UUID, asset_id: UUID, *, actor: str = ...) -> Asset: ...

    async def delete(self, tenant_id: UUID, asset_id: UUID, *, actor: str = ...) -> None: ...


class Sources(RunSources, Protocol):
    """The sources."""

    async def wait_until_indexed(self, tenant_id: UUID, name: str) -> SourceStatus: ...


class Administration(Protocol):
    """The administration of the tenant."""

    async def stats(self, tenant_id: UUID) -> Stats: ...


class Embedder(Protocol):
    """The state of the embedding provider."""

    async def is_provider_away(self, tenant_id: UUID, *, within: float) -> bool: ...


class Erasures(Protocol):
    """Erasures with their receipts."""

    async def erase(self, tenant_id: UUID, wanted: NewErasure, *, actor: str = ...) -> Erasure: ...


class AccessChanges(Protocol):
    """Changes of who may read and change many items, and who may read what."""

    @property
    def overview(self) -> AccessOverviews: ...

    async def change(self, tenant_id: UUID, patch: AccessPatch, *, actor: str = ...) -> ChangedAccess: ...


class AccessOverviews(Protocol):
    """Who may read what."""

    async def who(
        self,
        tenant_id: UUID,
        kind: ListedKind,
        key: UUID | str,
        *,
        reader: str | None = ...,
    ) -> ItemReaders: ...

    async def what(
        self,
        tenant_id: UUID,
        subject: str,
        groups: Sequence[str] | None = ...,
        *,
        limit: int = ...,
        cursor: str | None = ...,
        reader: str | None = ...,
    ) -> SubjectAccess: ...


class Knowledge(Protocol):
    """A tenant's knowledge, in this process or elsewhere."""

    @property
    def tenants(self) -> Tenants: ...
    @property
    def access(self) -> AccessChanges: ...
    @property
    def search(self) -> Searches: ...
    @property
    def entries(self) -> Entries: ...
    @property
    def related(self) -> RelatedEntries: ...
    @property
    def assets(self) -> Assets: ...
    @property
    def sources(self) -> Sources: ...
    @property
    def source_uploads(self) -> Uploads: ...
    @property
    def administration(self) -> Administration: ...
    @property
    def embedder(self) -> Embedder: ...
    @property
    def erasures(self) -> Erasures: ...
