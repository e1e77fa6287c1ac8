"""Assets: upload, status, change, text, original bytes, retry, delete."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Unpack

from knowledge_client.errors import IndexingFailed, IndexingUnfinished
from knowledge_client.exchange import Exchange, Pause
from knowledge_client.fields import AssetChanges, AssetFields, AssetSort, AssetStatus, Id
from knowledge_client.models import Asset, AssetPage
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get, path_of
from knowledge_client.transport import Attachment, Request


def upload_asset(
    file: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    name: str | None = None,
    media_type: str | None = None,
    external_id: str | None = None,
    source: str | None = None,
    run: int | None = None,
    **fields: Unpack[AssetFields],
) -> Exchange[Asset]:
    """Upload a file: a path, an open binary file, or bytes. Paths and open files are read while they are sent.

    The same bytes again give the same asset, with the given tags, roles, metadata, readers and writers; the same
    `external_id` with other bytes creates a new version. Omitted fields keep their value. Indexing continues in the
    background: see `wait_until_indexed`. With `source` and the `run` of its manifest, the file is that of the item
    `external_id`. Raises ValueError for a file without a name, and OSError.
    """
    if name is None:
        path = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
        if not isinstance(path, str | os.PathLike):
            raise ValueError("name: is required unless the file is a path or has a name")
        name = Path(path).name
    given = {"external_id": external_id, "source": source, "run": run, **fields}
    form = {name: _write_part(value) for name, value in given.items() if value is not None}
    attachment = Attachment(file, name, media_type)
    request = Request("POST", "/knowledge/assets", form=form, attachment=attachment, repeatable=attachment.repeatable)
    return ask(request, Asset)


def wait_until_indexed(asset: Asset | Id, *, timeout: float = 300.0) -> Exchange[Asset]:
    """Wait up to `timeout` seconds until an uploaded file is searchable; return the asset in its final state.

    Raises IndexingFailed with the reason, and IndexingUnfinished on timeout.
    """
    asset_id = asset.id if isinstance(asset, Asset) else asset
    deadline = time.monotonic() + timeout
    wait = 0.1
    while True:
        now = yield from get_asset(asset_id)
        if now.status == "indexed":
            return now
        if now.status == "failed":
            raise IndexingFailed(now)
        if time.monotonic() + wait > deadline:
            raise IndexingUnfinished(f"{now.name} is {now.status} after {timeout:g} s")
        yield Pause(wait)
        wait = min(1.5 * wait, 3.0)


def get_asset(asset_id: Id) -> Exchange[Asset]:
    """One asset and the progress of its indexing. Raises NotFound."""
    return get(path_of("assets", asset_id), Asset)


def get_asset_text(asset_id: Id) -> Exchange[str]:
    """The extracted text, to which a chunk's `char_start` and `char_end` refer. Raises Conflict before it exists."""
    response = yield Request("GET", path_of("assets", asset_id, "text"))
    text: str = response.text
    return text


def get_asset_content(asset_id: Id) -> Exchange[bytes]:
    """The bytes of the current version as they were uploaded. Raises NotFound."""
    response = yield Request("GET", path_of("assets", asset_id, "content"))
    content: bytes = response.content
    return content


def change_asset(asset_id: Id, *, if_version: int | None = None, **changes: Unpack[AssetChanges]) -> Exchange[Asset]:
    """Change fields of an asset and its chunks; omitted fields stay.

    With `if_version`, the `version` that was read, raises PreconditionFailed if the asset changed since.
    """
    headers = {} if if_version is None else {"If-Match": f'"{if_version}"'}
    return ask(Request("PATCH", path_of("assets", asset_id), json=changes, headers=headers), Asset)


def list_assets(
    *,
    limit: int | None = None,
    cursor: str | None = None,
    status: AssetStatus | None = None,
    sort: AssetSort | None = None,
) -> Exchange[AssetPage]:
    """A page of 1 to 200 assets (50 by default), by default newest first."""
    params = {"limit": limit, "cursor": cursor, "status": status, "sort": sort}
    return get("/knowledge/assets", AssetPage, params)


def iterate_assets(
    *, limit: int | None = None, status: AssetStatus | None = None, sort: AssetSort | None = None
) -> Pages[Asset]:
    """All assets, by default newest first, fetched in pages of `limit`."""
    return follow(partial(list_assets, limit=limit, status=status, sort=sort))


def retry_asset(asset_id: Id) -> Exchange[Asset]:
    """Read a failed asset again. Not repeated when it is unknown whether the call succeeded."""
    return ask(Request("POST", path_of("assets", asset_id, "retry"), repeatable=False), Asset)


def delete_asset(asset_id: Id) -> Exchange[None]:
    """Delete an asset with its chunks. Raises NotFound."""
    yield Request("DELETE", path_of("assets", asset_id))


def _write_part(value: Any) -> str | list[str]:
    """A field of a form. A comma separates tags and roles, so each gets a field of its own: none can contain one."""
    if isinstance(value, Mapping):
        return json.dumps(value)
    return str(value) if isinstance(value, str | int) else [str(each) for each in value]
