"""Erasures with their receipts, and the quarantine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, NotRequired
from uuid import UUID

from pydantic import AfterValidator, Field, ValidationInfo
from typing_extensions import TypedDict

from app.contract.fields import MAX_SUBJECT_CHARACTERS
from app.contract.validation import Described, Items, request
from app.contract.vocabulary import COMMAND_LINE

ErasureKind = Literal["asset", "entry", "subject"]
ErasureState = Literal["running", "erased", "done"]
Relation = Literal["child", "superseded", "derived", "same_content", "same_bytes", "filter", "changed"]
DependentKind = Literal["asset", "entry", "saved_search", "entry_version", "asset_versions"]


NOT_SUBJECTS = frozenset({COMMAND_LINE, "service", "tuning", "upkeep"})
"""Actors in the audit trail that represent the service; their items belong to no subject."""


def _check_subject(subject: str) -> str:
    if not subject.isprintable() or subject != subject.strip():
        raise ValueError(f"must have 1 to {MAX_SUBJECT_CHARACTERS} printable characters")
    if subject in NOT_SUBJECTS:
        raise ValueError("is a name of the service itself, not of a caller")
    return subject


@request(
    schema={
        "examples": [{"entry_id": "0198c5a2-7d1e-7a60-8d0b-5b1f6a2d7c33"}],
        "oneOf": [
            {"required": [name], "properties": {name: {"type": "string"}}}
            for name in ("asset_id", "entry_id", "subject")
        ],
    }
)
class NewErasure:
    """What to erase: exactly one of the fields."""

    asset_id: Annotated[UUID | None, Field(description="An asset, with its chunks.")] = None
    entry_id: Annotated[UUID | None, Field(description="An entry that is not a chunk.")] = None
    subject: (
        Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT_CHARACTERS), AfterValidator(_check_subject)] | None
    ) = None
    """The `sub` of a principal's tokens: what it created, searched, saved and judged. Revoke its tokens first."""

    def __post_init__(self) -> None:
        given = (self.asset_id, self.entry_id, self.subject)
        if sum(each is not None for each in given) != 1:
            raise ValueError("must have exactly one of asset_id, entry_id and subject")

    @property
    def kind(self) -> ErasureKind:
        """What kind of thing it erases."""
        return "subject" if self.subject is not None else "asset" if self.asset_id is not None else "entry"

    @property
    def target(self) -> UUID | None:
        """The asset or entry to erase."""
        return self.asset_id or self.entry_id


@dataclass(frozen=True, slots=True)
class Place(Described):
    """A table of the tenant."""

    place: str
    removed: Annotated[int, Field(description="Rows removed or, in receipts and the audit trail, changed.")]
    found: int | None
    """Rows that the last look found, in a later transaction; null before the first look."""


class Dependent(TypedDict):
    """An item that depends on an erased one; it was not erased.

    `child`: by its `parent_id`. `superseded`: the erased entry superseded it, and searches find it again. `derived`: by
    its `source_ids`. `same_content`, `same_bytes`: a copy. `filter`: a saved search that names the asset. `changed`:
    the subject changed what another created. An `entry_version` is a former version of the entry `id`, and
    `asset_versions` are former versions of the chunks of the asset `id`: with a text that was erased, or valid after
    the subject had changed the item. The entry or asset may be deleted.
    """

    relation: Relation
    kind: DependentKind
    id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    version: NotRequired[Annotated[int | None, Field(description="Of an `entry_version`.")]]


@dataclass(frozen=True, slots=True)
class Remainder:
    """What the erasure leaves by design."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Erasure(Described):
    """The receipt of an erasure."""

    id: UUID
    kind: ErasureKind
    asset_id: UUID | None
    entry_id: UUID | None
    pseudonym: Annotated[str | None, Field(description="What replaces the subject in the audit trail.")]
    requested_by: str
    state: ErasureState
    """`erased` after a look that found nothing, `done` after a second one, about a minute later."""
    created_at: datetime
    erased_at: datetime | None
    checked_at: Annotated[datetime | None, Field(description="The time of the last look.")]
    places: Sequence[Place]
    derived: Annotated[Sequence[Dependent], Field(description="Named for decision, at most 1,000.")]
    derived_total: int
    remains: Sequence[Remainder]


MAX_RELEASED = 1_000
"""Most ids in one release."""

Ids = Annotated[Items[UUID], Field(max_length=MAX_RELEASED), AfterValidator(tuple)]


def _check_number(entry_ids: tuple[UUID, ...], info: ValidationInfo) -> tuple[UUID, ...]:
    others = info.data.get("asset_ids")
    if others is not None and not 1 <= len(entry_ids) + len(others) <= MAX_RELEASED:
        raise ValueError(f"must be, with asset_ids, 1 to {MAX_RELEASED} ids")
    return entry_ids


@request(
    schema={
        "examples": [{"entry_ids": ["0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11"]}],
        "anyOf": [{"required": [name], "properties": {name: {"minItems": 1}}} for name in ("entry_ids", "asset_ids")],
    }
)
class Release:
    """Entries to release from quarantine, and assets whose chunks are released; 1 to 1,000 ids together."""

    asset_ids: Ids = ()
    entry_ids: Annotated[Ids, AfterValidator(_check_number), Field(validate_default=True)] = ()


@dataclass(frozen=True, slots=True)
class Released:
    """The entries that searches can find again."""

    released: Sequence[UUID]
