"""Check the manifest of a source, and plan the changes that bring the source up to date with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID

from app.contract.fields import MAX_PRINCIPALS
from app.contract.sources import MOST_ERRORS, NAME_RULE, SOURCE_NAME, ManifestItem
from app.contract.validation import Unset
from app.db.queries.sources import ItemChange, NewItem, Renamed, StoredItem
from app.errors import FieldError, InvalidInput
from app.knowledge.paging import MAX_PAGE, read_cursor, read_text, unknown_cursor, write_cursor
from app.knowledge.principals import own_list

CHECKED = "sha256:"
"""A digest with this prefix is the SHA-256 of the bytes in hexadecimal, and an upload must have it."""


def check_source_name(name: str) -> None:
    """Raise InvalidInput unless a source can have this name."""
    if not SOURCE_NAME.fullmatch(name):
        raise InvalidInput.of("name", NAME_RULE)


def read_place(limit: int, cursor: str | None) -> str | None:
    """The name or id after which a page starts. Raises InvalidInput."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
    if cursor is None:
        return None
    try:
        return read_text(read_cursor(cursor, "name"))
    except ValueError as error:
        raise unknown_cursor() from error


def write_place(last: str) -> str:
    """The cursor of the page that follows this name or id."""
    return write_cursor(last.encode(), "name")


Given = Sequence[str] | Unset | None


@dataclass(frozen=True, slots=True)
class Access:
    """The readers and writers of a source, in the order of the database.

    The writers are also readers of each item: they keep the source equal to its origin and must see all of it.
    """

    readers: Sequence[str] | None = None
    writers: Sequence[str] | None = None

    def changed_by(self, readers: Given, writers: Given) -> Access:
        """The access after a manifest that gives these lists. Raises InvalidInput."""
        after_writers = self.writers if isinstance(writers, Unset) else writers
        after_readers = self.readers if isinstance(readers, Unset) else readers
        if after_writers is not None:
            after_writers = own_list("writers", after_writers)
        if after_readers is not None:
            after_readers = _with(after_readers, after_writers, "readers")
            after_readers = own_list("readers", after_readers)
        return Access(after_readers, after_writers)

    def of_items(self, items: Iterable[ManifestItem]) -> dict[str, Sequence[str] | None]:
        """The readers of each item, by its external id; None: the readers of the source. Raises InvalidInput."""
        found: dict[str, Sequence[str] | None] = {}
        errors: list[FieldError] = []
        for number, item in enumerate(items):
            found[item.external_id] = None
            if item.readers is None:
                continue
            if self.writers is None:
                raise InvalidInput.of(
                    "writers", "is required for a source whose items have readers: they see all of its items"
                )
            try:
                found[item.external_id] = _with(item.readers, self.writers, f"items.{number}.readers")
            except InvalidInput as error:
                errors += error.errors
        if errors:
            raise InvalidInput(errors[:MOST_ERRORS])
        return found


def _with(readers: Sequence[str], writers: Sequence[str] | None, field: str) -> list[str]:
    """Readers and writers together, in the order of the database. Raises InvalidInput if they are too many."""
    both = sorted({*readers, *(writers or ())})
    if len(both) > MAX_PRINCIPALS:
        raise InvalidInput([FieldError(field, f"and the source's writers must be at most {MAX_PRINCIPALS} together")])
    return both


TOO_LARGE = "the file is larger than the limit"
EMPTY = "the file is empty"


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps from the stored items to the manifest.

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
    renamed: Sequence[Renamed]
    additions: Sequence[NewItem]
    assets: int

    @property
    def changed(self) -> int:
        """Items that stay in their place with other content."""
        return len(self.changes) - self.moved


def plan_manifest(
    stored: Sequence[StoredItem], wanted: Sequence[ManifestItem], *, max_bytes: int, retry: bool = False
) -> Plan:
    """Compare the stored items with a manifest.

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
    renamed: list[Renamed] = []
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
        again = (retry and (old.problem is not None or old.failed)) or (
            new.size is not None and (old.problem or "").startswith(TOO_LARGE)  # it fits now
        )
        again = again or _format_of(old.name) != _format_of(new.name)
        if again or (old.external_id, old.digest, old.name) != (new.external_id, new.digest, new.name):
            changes.append(ItemChange(old.external_id, new.external_id, new.digest, new.name, again))
        if old.asset_id is not None and (old.external_id, old.name) != (new.external_id, new.name):
            renamed.append(Renamed(old.asset_id, new.external_id, new.name))
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
        if item.external_id not in unfit and ((old := known.get(item.external_id)) is None or old.asset_id is None)
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


def _format_of(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
