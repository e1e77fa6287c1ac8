"""Former versions of entries and of the chunks of assets, and searches of the past that run again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from knowledge_client.exchange import Exchange
from knowledge_client.fields import Id
from knowledge_client.models import Replay, Version, VersionPage
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import get, path_of, post


def list_entry_versions(entry_id: Id, *, limit: int | None = None, cursor: str | None = None) -> Exchange[VersionPage]:
    """A page of 1 to 200 former versions (50 by default) of an entry, the latest first. Raises NotFound.

    The entry may be deleted. Without the tenant's setting `keep_versions_days` there are none.
    """
    return get(path_of("entries", entry_id, "versions"), VersionPage, {"limit": limit, "cursor": cursor})


def iterate_entry_versions(entry_id: Id, *, limit: int | None = None) -> Pages[Version]:
    """All former versions of an entry, the latest first, fetched in pages of `limit`."""
    return follow(partial(list_entry_versions, entry_id, limit=limit))


def list_asset_versions(asset_id: Id, *, limit: int | None = None, cursor: str | None = None) -> Exchange[VersionPage]:
    """A page of 1 to 200 former versions (50 by default) of an asset's chunks, the latest first. Raises NotFound.

    The asset may be deleted.
    """
    return get(path_of("assets", asset_id, "versions"), VersionPage, {"limit": limit, "cursor": cursor})


def iterate_asset_versions(asset_id: Id, *, limit: int | None = None) -> Pages[Version]:
    """All former versions of an asset's chunks, the latest first, fetched in pages of `limit`."""
    return follow(partial(list_asset_versions, asset_id, limit=limit))


def replay_search(
    search_id: Id, *, query: str | None = None, query_embedding: Sequence[float] | None = None
) -> Exchange[Replay]:
    """Run a search of the last 24 hours again, as of its time, and compare both rankings; for tenant admins.

    `query` is needed unless the tenant keeps query texts, `query_embedding` if the search had one. Raises NotFound and
    InvalidInput.
    """
    body = {"query": query, "query_embedding": None if query_embedding is None else list(query_embedding)}
    path = path_of("searches", search_id, "replay", root="/admin")
    return post(path, {name: value for name, value in body.items() if value is not None}, Replay)
