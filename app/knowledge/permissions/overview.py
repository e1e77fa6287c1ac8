"""Show admins who may read an item, and what a person may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal
from uuid import UUID

from app.contract.access import (
    ItemKind,
    ItemReaders,
    ListedKind,
    PassingCaller,
    SubjectAccess,
)
from app.contract.fields import NAME_RULE, is_principal
from app.db.database import Database
from app.db.principals import name_group, name_user, principals_of
from app.db.queries import access as db
from app.db.queries import sources, tenants
from app.db.queries.tenants import KnownCaller
from app.db.session import TenantSession
from app.errors import AssetNotFound, EntryNotFound, InvalidInput, SourceNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import MAX_PAGE
from app.knowledge.permissions.changes import read_place, write_place

PLURALS: Mapping[ListedKind, str] = {"entry": "entries", "asset": "assets", "source": "sources"}
"""The part of an address that names the kind of an item."""

MOST_CALLERS = 100
MOST_COUNTED = 100_000
ACCESS_KEPT = timedelta(days=90)
"""How long a caller is known after its last call."""
WRITING = frozenset({"creator", "tenant_admin"})
"""Roles with which a caller may write."""


class AccessOverview:
    """Shows who may read what in any tenant, to those who see all of it."""

    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    async def who(
        self, tenant_id: UUID, kind: ListedKind, key: UUID | str, *, reader: str | None = None
    ) -> ItemReaders:
        """Who may read and change an entry or asset of this id, or a source of this name.

        With `reader`, recorded in the audit trail. Raises NotFound.
        """
        async with self._database.tenant_session(tenant_id) as session:
            found = await _find(session, kind, key)
            known = await tenants.list_known_callers(session, found.readers, MOST_CALLERS)
            subject = key if isinstance(key, UUID) else None
            await self._trail.note_read(session, reader, "access.read", subject)
        return replace(found, callers=[_describe(caller, found.writers) for caller in known])

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
        """What a person may read: numbers, and the items that not all readers may read, by id.

        The database answers as it would answer the person. Without `groups`, those of its last token count. Raises
        InvalidInput.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
        if not is_principal(name_user(subject)):
            raise InvalidInput.of("subject", NAME_RULE)
        if not all(is_principal(name_group(name)) for name in groups or ()):
            raise InvalidInput.of("group", NAME_RULE)
        _, after = read_place(cursor)
        origin: Literal["request", "token", "none"] = "request"
        async with self._database.tenant_session(tenant_id) as session:
            if groups is None:
                known = await tenants.find_caller(session, subject)
                groups = [] if known is None else _groups_of(known)
                origin = "none" if known is None else "token"
            total = await db.count_items(session, MOST_COUNTED)
            await self._trail.note_read(session, reader, "access.read")
            async with session.acting_as(principals_of(subject, groups)):
                readable = await db.count_items(session, MOST_COUNTED)
                items = await db.list_restricted(session, after, limit + 1)
        following = write_place("entry", items[limit - 1].id) if len(items) > limit else None
        return SubjectAccess(subject, list(groups), origin, readable, total, items[:limit], following)


async def _find(session: TenantSession, kind: ListedKind, key: UUID | str) -> ItemReaders:
    """The item's lists, without callers."""
    if not isinstance(key, UUID):
        if (source := await sources.fetch_source(session, key)) is None:
            raise SourceNotFound("there is no source with this name")
        return ItemReaders("source", None, key, source.readers, source.writers, "source", None, key, ())
    kept: ItemKind = "entry" if kind == "entry" else "asset"
    if (found := await db.fetch_access(session, kept, key)) is None:
        raise (EntryNotFound if kept == "entry" else AssetNotFound)(f"there is no {kept} with this id")
    decided_by: ListedKind = "source" if found.source else "asset" if found.asset_id else found.kind
    lists = found.readers, found.writers
    return ItemReaders(found.kind, found.id, found.name, *lists, decided_by, found.asset_id, found.source, callers=())


def _groups_of(caller: KnownCaller) -> list[str]:
    return [each.removeprefix("group:") for each in caller.principals if each.startswith("group:")]


def _describe(caller: KnownCaller, writers: Sequence[str] | None) -> PassingCaller:
    passes = writers is None or not set(writers).isdisjoint(caller.principals)
    writes = passes and not WRITING.isdisjoint(caller.roles)
    return PassingCaller(caller.subject, _groups_of(caller), caller.roles, caller.last_at, writes)
