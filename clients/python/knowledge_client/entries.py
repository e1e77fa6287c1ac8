"""Entries: create, read, list, change, delete, many at once."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Unpack

from knowledge_client.answers import write_json
from knowledge_client.errors import IndexingUnfinished, NotFound
from knowledge_client.exchange import Exchange, Pause
from knowledge_client.fields import EntryChanges, EntryFields, EntrySort, EntryType, Id, NewEntry, TagSort
from knowledge_client.models import BulkResponse, BulkResult, Entry, EntryPage, TagCount, TagPage
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get, path_of, post
from knowledge_client.transport import Request

BULK_ENTRIES = 1_000
BULK_BYTES = 16 * 1024 * 1024
"""The service accepts 1,000 entries and 32 MiB in one request."""


def create_entry(content: str, **fields: Unpack[EntryFields]) -> Exchange[Entry]:
    """Store an entry. The same `external_id`, or else the same content, updates and returns the existing entry.

    Its keywords are searchable at once. Semantic search finds it when `embedding_status` is `ready`, as it usually is
    already.
    """
    return post("/knowledge/entries", {"content": content, **fields}, Entry)


def create_entries(entries: Iterable[NewEntry]) -> Exchange[list[BulkResult]]:
    """Store any number of entries, in requests that fit the service's limits; return one result for each, in order.

    A refused entry does not prevent the others from being stored. When a request fails, the entries of earlier requests
    are stored. The whole call may be repeated: entries that exist already are returned as `unchanged`.
    """
    results: list[BulkResult] = []
    for part in _split(entries):
        answer = yield from post("/knowledge/entries/bulk", {"entries": part}, BulkResponse)
        before = len(results)
        results += [BulkResult(**{**r.model_dump(), "index": before + r.index}) for r in answer.results]
    return results


def get_entry(entry_id: Id) -> Exchange[Entry]:
    """One entry. Raises NotFound."""
    return get(path_of("entries", entry_id), Entry)


def find_entry(external_id: str) -> Exchange[Entry | None]:
    """The entry with this external id, or None."""
    page = yield from list_entries(external_id=external_id, limit=1, include_expired=True, include_quarantined=True)
    return page.items[0] if page.items else None


def list_entries(
    *,
    limit: int | None = None,
    cursor: str | None = None,
    entry_type: EntryType | None = None,
    tag: str | None = None,
    asset_id: Id | None = None,
    external_id: str | None = None,
    include_expired: bool | None = None,
    include_quarantined: bool | None = None,
    sort: EntrySort | None = None,
) -> Exchange[EntryPage]:
    """A page of 1 to 200 entries (50 by default), by default newest first and without expired and quarantined ones."""
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
    return get("/knowledge/entries", EntryPage, params)


def iterate_entries(
    *,
    limit: int | None = None,
    entry_type: EntryType | None = None,
    tag: str | None = None,
    asset_id: Id | None = None,
    sort: EntrySort | None = None,
) -> Pages[Entry]:
    """All entries, by default newest first, fetched in pages of `limit`."""
    return follow(partial(list_entries, limit=limit, entry_type=entry_type, tag=tag, asset_id=asset_id, sort=sort))


def list_tags(
    *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None, sort: TagSort | None = None
) -> Exchange[TagPage]:
    """A page of 1 to 200 tags (50 by default) with the number of entries that a search with each finds.

    By default in the order of their characters; `-count` lists the most used first.
    """
    params = {"prefix": prefix, "limit": limit, "cursor": cursor, "sort": sort}
    return get("/knowledge/tags", TagPage, params)


def iterate_tags(
    *, prefix: str | None = None, limit: int | None = None, sort: TagSort | None = None
) -> Pages[TagCount]:
    """All tags, fetched in pages of `limit`."""
    return follow(partial(list_tags, prefix=prefix, limit=limit, sort=sort))


def change_entry(entry_id: Id, *, if_version: int | None = None, **changes: Unpack[EntryChanges]) -> Exchange[Entry]:
    """Change the given fields. Raises PreconditionFailed when the entry is no longer at `if_version`.

    With `if_version`, the call is not repeated when it is unknown whether it succeeded.
    """
    request = Request(
        "PATCH",
        path_of("entries", entry_id),
        headers=_if_match(if_version),
        json=changes,
        repeatable=if_version is None,
    )
    return ask(request, Entry)


def delete_entry(entry_id: Id, *, if_version: int | None = None) -> Exchange[None]:
    """Delete an entry. Raises NotFound and PreconditionFailed."""
    yield Request("DELETE", path_of("entries", entry_id), headers=_if_match(if_version))


def wait_until_embedded(entry_ids: Collection[Id], *, timeout: float = 60.0) -> Exchange[None]:
    """Wait up to `timeout` seconds until semantic search finds the entries. Raises IndexingUnfinished.

    Entries that are deleted during the wait are ignored.
    """
    deadline = time.monotonic() + timeout
    for entry_id in entry_ids:
        wait = 0.05
        while (yield from _is_pending(entry_id)):
            if time.monotonic() + wait > deadline:
                raise IndexingUnfinished(f"entry {entry_id} has no vector after {timeout:g} s")
            yield Pause(wait)
            wait = min(2 * wait, 2.0)


def _is_pending(entry_id: Id) -> Exchange[bool]:
    try:
        return (yield from get_entry(entry_id)).embedding_status == "pending"
    except NotFound:
        return False


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _split(entries: Iterable[NewEntry]) -> Iterator[list[NewEntry]]:
    part: list[NewEntry] = []
    size = 0
    for entry in entries:
        length = len(write_json(entry))
        if part and (len(part) == BULK_ENTRIES or size + length > BULK_BYTES):
            yield part
            part, size = [], 0
        part.append(entry)
        size += length
    if part:
        yield part
