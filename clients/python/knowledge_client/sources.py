"""Sources: manifests of what an origin has, the states of their items, deletion. See `upload_asset` for their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict, Unpack
from urllib.parse import quote

from knowledge_client.exchange import Exchange
from knowledge_client.fields import AccessLists
from knowledge_client.pages import Pages
from knowledge_client.parts import (
    AcceptedManifest,
    Source,
    SourceItem,
    SourceItemPage,
    SourcePage,
    SourceStatus,
)
from knowledge_client.reading import ask, get
from knowledge_client.transport import Request

ItemState = Literal["indexed", "pending", "failed", "refused", "missing"]


class ManifestItem(TypedDict):
    """A file of an origin. Equal digests must mean equal bytes; `sha256:HEX` is compared with uploads."""

    external_id: str
    digest: str
    name: NotRequired[str | None]
    size: NotRequired[int | None]
    readers: NotRequired[Sequence[str] | None]


def put_source(
    name: str,
    items: Iterable[ManifestItem],
    *,
    run: int | None = None,
    origin: str | None = None,
    listed_at: datetime | None = None,
    confirm_deletions: bool = False,
    allow_empty: bool = False,
    retry: bool = False,
    **access: Unpack[AccessLists],
) -> Exchange[AcceptedManifest]:
    """Make a source have what its origin lists: moved assets keep their ids, assets that are not listed are deleted.

    Then upload the items that are `missing`: `iterate_source_items(name, state="missing")` and `upload_asset` with
    `source` and the `run` of the answer. `readers` and `writers` are those of the source; omitted ones stay. Raises
    Conflict when another run has begun since `run`, and when more assets would be deleted than a run may. With `run`,
    the call is not repeated when it is unknown whether it succeeded.
    """
    body: dict[str, Any] = {"items": list(items)}
    options = {
        "run": run,
        "origin": origin,
        "listed_at": None if listed_at is None else listed_at.isoformat(),
    }
    body |= {key: value for key, value in options.items() if value is not None}
    flags = {"confirm_deletions": confirm_deletions, "allow_empty": allow_empty, "retry": retry}
    body |= {key: True for key, value in flags.items() if value}
    body |= access
    request = Request("PUT", _path_of(name), json=body, repeatable=run is None)
    return ask(request, AcceptedManifest)


def get_source(name: str) -> Exchange[SourceStatus]:
    """A source with the number of its items in each state. Raises NotFound."""
    return get(_path_of(name), SourceStatus)


def list_sources(*, limit: int | None = None, cursor: str | None = None) -> Exchange[SourcePage]:
    """A page of 1 to 200 sources (50 by default), by name."""
    return get("/knowledge/sources", SourcePage, {"limit": limit, "cursor": cursor})


def iterate_sources(*, limit: int | None = None) -> Pages[Source]:
    """All sources, by name, fetched in pages of `limit`."""

    def read(cursor: str | None) -> Exchange[tuple[Sequence[Source], str | None]]:
        page = yield from list_sources(limit=limit, cursor=cursor)
        return page.items, page.next_cursor

    return read


def list_source_items(
    name: str, *, state: ItemState | None = None, limit: int | None = None, cursor: str | None = None
) -> Exchange[SourceItemPage]:
    """A page of 1 to 200 items (50 by default) of a source, by external id. Raises NotFound."""
    return get(_path_of(name) + "/items", SourceItemPage, {"state": state, "limit": limit, "cursor": cursor})


def iterate_source_items(name: str, *, state: ItemState | None = None, limit: int | None = None) -> Pages[SourceItem]:
    """All items of a source, by external id, fetched in pages of `limit`."""

    def read(cursor: str | None) -> Exchange[tuple[Sequence[SourceItem], str | None]]:
        page = yield from list_source_items(name, state=state, limit=limit, cursor=cursor)
        return page.items, page.next_cursor

    return read


def delete_source(name: str, *, assets: Literal["keep", "delete"] = "keep") -> Exchange[None]:
    """Delete a source; its assets stay, or are deleted with it. Raises NotFound, and Conflict when an asset that stays
    has the external id of another one."""
    yield Request("DELETE", _path_of(name), params={"assets": assets})


def _path_of(name: str) -> str:
    return f"/knowledge/sources/{quote(name, safe='')}"
