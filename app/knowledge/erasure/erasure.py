"""An erasure as its admin sees it: a receipt that lists each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.db.queries.tenants.erasures import Kind, State, StoredErasure
from app.knowledge.erasure.places import Remainder, places_of, remainders_of


@dataclass(frozen=True, slots=True)
class PlaceReport:
    """A place: how many rows were removed or changed, and how many the last look found; None before the first."""

    place: str
    removed: int
    found: int | None


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure: what it is for, what it removed, what is left for decision, and what remains by design.

    Attributes:
        pseudonym: replaces the subject in the audit trail; None unless the erasure is of a subject.
        state: `erased` after a look that found nothing, `done` after a second one.
    """

    id: UUID
    kind: Kind
    asset_id: UUID | None
    entry_id: UUID | None
    pseudonym: str | None
    requested_by: str
    state: State
    created_at: datetime
    erased_at: datetime | None
    checked_at: datetime | None
    places: Sequence[PlaceReport]
    derived: Sequence[Mapping[str, str | int]]
    derived_total: int
    remains: Sequence[Remainder]


def describe(stored: StoredErasure) -> Erasure:
    """The receipt of a stored erasure."""
    found = None if stored.checked_at is None else stored.found
    return Erasure(
        id=stored.id,
        kind=stored.kind,
        asset_id=stored.target if stored.kind == "asset" else None,
        entry_id=stored.target if stored.kind == "entry" else None,
        pseudonym=f"erased:{stored.id}" if stored.kind == "subject" else None,
        requested_by=stored.requested_by,
        state=stored.state,
        created_at=stored.created_at,
        erased_at=stored.erased_at,
        checked_at=stored.checked_at,
        places=[
            PlaceReport(place, stored.removed.get(place, 0), None if found is None else found.get(place, 0))
            for place in places_of(stored.kind)
        ],
        derived=stored.derived,
        derived_total=stored.derived_total,
        remains=remainders_of(stored.kind),
    )
