"""Permissions at a service elsewhere. The token has the tenant and the actor: both arguments are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from app.cli.remote.exchange import Exchange
from app.db.queries.knowledge.access import ListedKind
from app.knowledge.entries.drafts import UNSET
from app.knowledge.permissions.changes import AccessChange, ListChange
from app.knowledge.permissions.overview import PLURALS, ItemReaders, SubjectAccess
from app.knowledge.permissions.selection import AccessSelection
from app.knowledge.permissions.service import ChangedAccess


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """Changes of who may read and change many items."""

    exchange: Exchange
    overview: RemoteAccessOverview

    async def change(
        self,
        tenant_id: UUID,
        selection: AccessSelection,
        change: AccessChange,
        *,
        dry_run: bool = False,
        cursor: str | None = None,
        actor: str = "",
    ) -> ChangedAccess:
        """Change the next page of items. Raises KnowledgeError."""
        where = {
            "ids": selection.ids,
            "tags": selection.tags,
            "entry_type": selection.entry_type,
            "filter": selection.filter,
            "principal": selection.principal,
        }
        body: dict[str, Any] = {"where": {name: value for name, value in where.items() if value is not None}}
        body["where"]["tags_match"] = selection.tags_match
        for name, given in (("readers", change.readers), ("writers", change.writers)):
            if given is not None:
                body[name] = _describe(given)
        body |= {"dry_run": dry_run, "cursor": cursor}
        return await self.exchange.read(ChangedAccess, "PATCH", "/knowledge/access", body=body)


def _describe(change: ListChange) -> dict[str, Any]:
    if change.set is not UNSET:
        return {"set": change.set}
    lists = {"add": list(change.add), "remove": list(change.remove)}
    return {name: given for name, given in lists.items() if given}


@dataclass(frozen=True, slots=True)
class RemoteAccessOverview:
    """Who may read what, for an admin."""

    exchange: Exchange

    async def who(
        self, tenant_id: UUID, kind: ListedKind, key: UUID | str, *, reader: str | None = None
    ) -> ItemReaders:
        """Who may read and change an item. Raises KnowledgeError."""
        return await self.exchange.read(
            ItemReaders, "GET", f"/admin/access/{PLURALS[kind]}/{quote(str(key), safe='')}"
        )

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
        """What a person may read. Raises KnowledgeError."""
        params = {"subject": subject, "group": groups, "limit": limit, "cursor": cursor}
        return await self.exchange.read(SubjectAccess, "GET", "/admin/access/subject", params=params)
