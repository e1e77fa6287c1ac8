"""Who may read and change entries, assets and sources: changes of many items, and the overviews of tenant admins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from knowledge_client.exchange import Exchange
from knowledge_client.fields import AccessSelection, Id, ListChange
from knowledge_client.models import ChangedAccess, ItemAccess, ItemReaders, RefusedItem, SubjectAccess
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get, path_of
from knowledge_client.transport import Request

ROOT = "/admin/access"


def change_access(
    where: AccessSelection,
    *,
    readers: ListChange | None = None,
    writers: ListChange | None = None,
    dry_run: bool = False,
) -> Exchange[ChangedAccess]:
    """Change who may read and change all entries and assets that pass `where`; return the sums of all requests.

    A request changes 200 items; when one fails, the items of earlier ones are changed. The whole call may be repeated.
    Items that the caller may not change, or that would have no reader left, are `refused`. `dry_run` counts them.
    Raises InvalidInput.
    """
    matched, changed = 0, 0
    refused: list[RefusedItem] = []
    cursor: str | None = None
    while True:
        page = yield from _change(where, readers, writers, dry_run, cursor)
        matched, changed = matched + page.matched, changed + page.changed
        refused += page.refused
        cursor = page.next_cursor
        if cursor is None:
            return ChangedAccess(matched=matched, changed=changed, refused=refused, next_cursor=None)


def iterate_access_changes(
    where: AccessSelection,
    *,
    readers: ListChange | None = None,
    writers: ListChange | None = None,
    dry_run: bool = False,
) -> Pages[ChangedAccess]:
    """As `change_access`, with the answer of each request; the items of a request are changed when it is fetched."""

    def read(cursor: str | None) -> Exchange[tuple[Sequence[ChangedAccess], str | None]]:
        page = yield from _change(where, readers, writers, dry_run, cursor)
        return [page], page.next_cursor

    return read


def get_entry_readers(entry_id: Id) -> Exchange[ItemReaders]:
    """Who may read and change an entry, or the asset of a chunk; for tenant admins. Raises NotFound."""
    return get(path_of("entries", entry_id, root=ROOT), ItemReaders)


def get_asset_readers(asset_id: Id) -> Exchange[ItemReaders]:
    """Who may read and change an asset; for tenant admins. Raises NotFound."""
    return get(path_of("assets", asset_id, root=ROOT), ItemReaders)


def get_source_readers(name: str) -> Exchange[ItemReaders]:
    """Who may see and keep a source; for tenant admins. Raises NotFound."""
    return get(f"{ROOT}/sources/{quote(name, safe='')}", ItemReaders)


def get_subject_access(
    subject: str, *, groups: Sequence[str] | None = None, limit: int | None = None, cursor: str | None = None
) -> Exchange[SubjectAccess]:
    """What a person may read, with a page of 1 to 200 items (50 by default); for tenant admins.

    Without `groups`, or with an empty list, those of the person's last token count. The items are those that not all
    readers may read.
    """
    params = {"subject": subject, "group": groups or None, "limit": limit, "cursor": cursor}
    return get(f"{ROOT}/subject", SubjectAccess, params)


def iterate_subject_access(
    subject: str, *, groups: Sequence[str] | None = None, limit: int | None = None
) -> Pages[ItemAccess]:
    """All items that a person may read and not all readers may, fetched in pages of `limit`."""
    return follow(partial(get_subject_access, subject, groups=groups, limit=limit))


def _change(
    where: AccessSelection, readers: ListChange | None, writers: ListChange | None, dry_run: bool, cursor: str | None
) -> Exchange[ChangedAccess]:
    body: dict[str, Any] = {"where": where, "dry_run": dry_run, "cursor": cursor}
    lists = {"readers": readers, "writers": writers}
    body |= {name: change for name, change in lists.items() if change is not None}
    return ask(Request("PATCH", "/knowledge/access", json=body), ChangedAccess)
