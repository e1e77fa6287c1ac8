"""The quarantine: entries that searches do not find because of their flags, until an admin releases them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Released:
    """The entries that searches can find again."""

    released: Sequence[UUID]
