"""Sources: manifests of what an origin has, the states of their items, deletion. See `upload_asset` for their files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Unpack
from urllib.parse import quote

from knowledge_client.exchange import Exchange
from knowledge_client.fields import AssetsFate, ItemState, ManifestItem, ManifestOptions
from knowledge_client.models import AcceptedManifest, Source, SourceItem, SourceItemPage, SourcePage, SourceStatus
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get
from knowledge_client.transport import Request


def put_source(
    name: str, items: Iterable[ManifestItem], **options: Unpack[ManifestOptions]
) -> Exchange[AcceptedManifest]:
    """Make a source have what its origin lists: moved assets keep their ids, assets that are not listed are deleted.

    Then upload the items that are `missing`: `iterate_source_items(name, state="missing")` and `upload_asset` with
    `source` and the `run` of the answer. `readers` and `writers` are those of the source; omitted ones stay. Raises
    Conflict when another run has begun since `run`, and when more assets would be deleted than a run may. With `run`,
    the call is not repeated when it is unknown whether it succeeded.
    """
    body = {"items": list(items), **options}
    request = Request("PUT", _path_of(name), json=body, repeatable=options.get("run") is None)
    return ask(request, AcceptedManifest)


def get_source(name: str) -> Exchange[SourceStatus]:
    """A source with the number of its items in each state. Raises NotFound."""
    return get(_path_of(name), SourceStatus)


def list_sources(*, limit: int | None = None, cursor: str | None = None) -> Exchange[SourcePage]:
    """A page of 1 to 200 sources (50 by default), by name."""
    return get("/knowledge/sources", SourcePage, {"limit": limit, "cursor": cursor})


def iterate_sources(*, limit: int | None = None) -> Pages[Source]:
    """All sources, by name, fetched in pages of `limit`."""
    return follow(partial(list_sources, limit=limit))


def list_source_items(
    name: str, *, state: ItemState | None = None, limit: int | None = None, cursor: str | None = None
) -> Exchange[SourceItemPage]:
    """A page of 1 to 200 items (50 by default) of a source, by external id. Raises NotFound."""
    return get(_path_of(name) + "/items", SourceItemPage, {"state": state, "limit": limit, "cursor": cursor})


def iterate_source_items(name: str, *, state: ItemState | None = None, limit: int | None = None) -> Pages[SourceItem]:
    """All items of a source, by external id, fetched in pages of `limit`."""
    return follow(partial(list_source_items, name, state=state, limit=limit))


def delete_source(name: str, *, assets: AssetsFate = "keep") -> Exchange[None]:
    """Delete a source; its assets stay, or are deleted with it. Raises NotFound, and Conflict when an asset that stays
    has the external id of another one."""
    yield Request("DELETE", _path_of(name), params={"assets": assets})


def _path_of(name: str) -> str:
    return f"/knowledge/sources/{quote(name, safe='')}"
