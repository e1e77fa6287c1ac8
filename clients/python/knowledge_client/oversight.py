"""Calls of tenant admins: erasures, and the quarantine of entries with suspicious content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from knowledge_client.exchange import Exchange
from knowledge_client.fields import Id
from knowledge_client.models import Entry, EntryPage, Erasure, ErasurePage, Released
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get, path_of, post
from knowledge_client.transport import Request


def erase(*, asset_id: Id | None = None, entry_id: Id | None = None, subject: str | None = None) -> Exchange[Erasure]:
    """Erase an asset, an entry, or everything of a subject in every place, and look again; give exactly one of them.

    The answer is a receipt; while its `state` is `running`, the erasure continues: see `get_erasure`. Raises NotFound,
    and Conflict for a chunk. The call is not repeated when it is unknown whether it succeeded.
    """
    given = {"asset_id": asset_id, "entry_id": entry_id, "subject": subject}
    body = {name: str(value) for name, value in given.items() if value is not None}
    return ask(Request("POST", "/admin/erasures", json=body, repeatable=False), Erasure)


def get_erasure(erasure_id: Id) -> Exchange[Erasure]:
    """The receipt of an erasure, with what the last look found. Raises NotFound."""
    return get(path_of("erasures", erasure_id, root="/admin"), Erasure)


def list_erasures(*, limit: int | None = None, cursor: str | None = None) -> Exchange[ErasurePage]:
    """A page of 1 to 200 receipts of erasures (50 by default), newest first."""
    return get("/admin/erasures", ErasurePage, {"limit": limit, "cursor": cursor})


def iterate_erasures(*, limit: int | None = None) -> Pages[Erasure]:
    """The receipts of all erasures, newest first, fetched in pages of `limit`."""
    return follow(partial(list_erasures, limit=limit))


def list_quarantined(
    *, asset_id: Id | None = None, limit: int | None = None, cursor: str | None = None
) -> Exchange[EntryPage]:
    """A page of 1 to 200 quarantined entries and chunks (50 by default), newest first, optionally of one asset.

    `metadata["flags"]` names what was found in each.
    """
    params = {"asset_id": asset_id, "limit": limit, "cursor": cursor}
    return get("/admin/quarantine", EntryPage, params)


def iterate_quarantined(*, asset_id: Id | None = None, limit: int | None = None) -> Pages[Entry]:
    """All quarantined entries and chunks, newest first, fetched in pages of `limit`."""
    return follow(partial(list_quarantined, asset_id=asset_id, limit=limit))


def release(*, entry_ids: Iterable[Id] = (), asset_ids: Iterable[Id] = ()) -> Exchange[Sequence[UUID]]:
    """Release entries, or all chunks of assets, from quarantine: 1 to 1,000 ids together.

    Returns the entries that searches can find again; ids that are not in quarantine are skipped.
    """
    body = {"entry_ids": [str(i) for i in entry_ids], "asset_ids": [str(i) for i in asset_ids]}
    answer = yield from post("/admin/quarantine/release", body, Released)
    return answer.released
