"""What has to change so that a source has what a manifest lists: a decision without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID

from app.db.queries.knowledge.source_items import ItemChange, NewItem, StoredItem
from app.knowledge.sources.manifest import ManifestItem

TOO_LARGE = "the file is larger than the limit"
EMPTY = "the file is empty"


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps from the stored items to those of a manifest.

    Attributes:
        removed_assets: assets to delete, with their items.
        removed_items: items to delete that have no asset.
        changes: new values of items that stay.
        moved: how many of them get another external id.
        renamed: assets that get another external id or name.
        additions: items to add.
        assets: number of assets before.
    """

    removed_assets: Sequence[UUID]
    removed_items: Sequence[str]
    changes: Sequence[ItemChange]
    moved: int
    renamed: Sequence[tuple[UUID, str, str]]
    additions: Sequence[NewItem]
    assets: int

    @property
    def changed(self) -> int:
        """Items that stay in their place with other content."""
        return len(self.changes) - self.moved


def plan_manifest(
    stored: Sequence[StoredItem], wanted: Sequence[ManifestItem], *, max_bytes: int, retry: bool = False
) -> Plan:
    """Compare the stored items with those of a manifest.

    An item has moved if its external id is no longer listed, and another one, which has no asset, has the digest of its
    bytes. Files above `max_bytes`, and those with an asset that have become empty, are refused and lose it. With
    `retry`, files that were refused or could not be ingested are needed again.
    """
    listed = {item.external_id: item for item in wanted}
    known = {item.external_id: item for item in stored}
    unfit = {
        item.external_id: reason
        for item in wanted
        if (reason := _find_refusal(item, known.get(item.external_id), max_bytes)) is not None
    }
    moves = _find_moves(stored, wanted, listed, known, unfit)
    removed_assets: list[UUID] = []
    removed_items: list[str] = []
    changes: list[ItemChange] = []
    renamed: list[tuple[UUID, str, str]] = []
    arrived = {item.external_id for item in moves.values()}
    for old in stored:
        if old.external_id in arrived:
            removed_items.append(old.external_id)
            continue
        new = moves.get(old.external_id) or listed.get(old.external_id)
        if new is None or new.external_id in unfit:
            if old.asset_id is not None:
                removed_assets.append(old.asset_id)
            else:
                removed_items.append(old.external_id)
            continue
        again = (retry and (old.problem is not None or old.failed)) or _fits_now(old, new)
        again = again or _format_of(old.name) != _format_of(new.name)
        if again or (old.external_id, old.digest, old.name) != (new.external_id, new.digest, new.name):
            changes.append(ItemChange(old.external_id, new.external_id, new.digest, new.name, again))
        if old.asset_id is not None and (old.external_id, old.name) != (new.external_id, new.name):
            renamed.append((old.asset_id, new.external_id, new.name))
    additions = [
        NewItem(i.external_id, i.digest, i.name, unfit.get(i.external_id))
        for i in wanted
        if i.external_id not in arrived and (i.external_id not in known or i.external_id in unfit)
    ]
    assets = sum(item.asset_id is not None for item in stored)
    return Plan(removed_assets, removed_items, changes, len(moves), renamed, additions, assets)


def _find_moves(
    stored: Sequence[StoredItem],
    wanted: Sequence[ManifestItem],
    listed: Mapping[str, ManifestItem],
    known: Mapping[str, StoredItem],
    unfit: Mapping[str, str],
) -> dict[str, ManifestItem]:
    """The new places of items that are no longer listed, by their old external ids.

    Of several files with the same bytes, those that keep their names are matched first, then in the order of their ids.
    """
    free = [
        item
        for item in sorted(wanted, key=lambda i: i.external_id, reverse=True)
        if item.external_id not in unfit
        and ((old := known.get(item.external_id)) is None or old.asset_id is None)
    ]
    gone = [item for item in stored if item.external_id not in listed and item.asset_id is not None]
    moves: dict[str, ManifestItem] = {}
    taken: set[str] = set()
    for key in (lambda digest, name: (digest, name)), (lambda digest, name: (digest, "")):
        places: dict[tuple[str, str], list[ManifestItem]] = {}
        for item in free:
            if item.external_id not in taken:
                places.setdefault(key(item.digest, item.name), []).append(item)
        for old in gone:
            if old.external_id not in moves and (found := places.get(key(old.stored_digest or "", old.name))):
                moves[old.external_id] = found.pop()
                taken.add(moves[old.external_id].external_id)
    return moves


def _find_refusal(new: ManifestItem, old: StoredItem | None, max_bytes: int) -> str | None:
    """Why a file is refused by its size; None if it is not, or its size is unknown."""
    if new.size is not None and new.size > max_bytes:
        return f"{TOO_LARGE} of {max_bytes} bytes"
    return EMPTY if new.size == 0 and old is not None and old.asset_id is not None else None


def _fits_now(old: StoredItem, new: ManifestItem) -> bool:
    """Whether a file that was too large is below the limit."""
    return new.size is not None and (old.problem or "").startswith(TOO_LARGE)


def _format_of(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
