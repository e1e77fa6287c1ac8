"""The quarantine: entries that searches do not find because of their flags, until an admin releases them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field, ValidationInfo

from app.contract.validation import Items, request

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
        "anyOf": [
            {"required": [name], "properties": {name: {"minItems": 1}}} for name in ("entry_ids", "asset_ids")
        ],
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
