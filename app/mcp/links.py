"""Where people and clients find an entry or a document."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

ENTRY = "kb://entries/"
DOCUMENT = "kb://documents/"
"""The beginnings of the URIs of resources."""


def entry_uri(entry_id: UUID) -> str:
    """The URI of an entry as a resource."""
    return f"{ENTRY}{entry_id}"


def document_uri(asset_id: UUID) -> str:
    """The URI of a document as a resource."""
    return f"{DOCUMENT}{asset_id}"


@dataclass(frozen=True, slots=True)
class Links:
    """Links to the console at the service's public address; without one, they are URIs of resources."""

    public_url: str | None = None

    def to_entry(self, entry_id: UUID) -> str:
        """A link to an entry or chunk."""
        if self.public_url is None:
            return entry_uri(entry_id)
        return f"{self.public_url}/console/entries/{entry_id}"
