"""Which items a change of permissions is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.queries.knowledge.access import Selection
from app.errors import FieldError, InvalidInput
from app.knowledge.principals import PRINCIPAL_RULE, is_principal
from app.knowledge.search.query import SearchQuery
from app.knowledge.vocabulary import EntryType, TagsMatch

MOST_IDS = 1_000
_CONDITIONS = ("ids", "tags", "entry_type", "filter", "principal")


@dataclass(frozen=True, slots=True)
class AccessSelection:
    """Entries and assets that pass all of these conditions, of which there is at least one.

    Attributes:
        ids: of entries and assets, 1 to 1,000.
        tags, tags_match, entry_type, filter: as in a search. An asset passes a filter if one of its chunks does; its
            type is `chunk`.
        principal: one that the readers or writers name.
    """

    ids: Sequence[UUID] | None = None
    tags: Sequence[str] | None = None
    tags_match: TagsMatch = "any"
    entry_type: EntryType | Sequence[EntryType] | None = None
    filter: Mapping[str, Any] | None = None
    principal: str | None = None

    def read(self) -> Selection:
        """The selection for the database. Raises InvalidInput."""
        if self.ids is not None and not 1 <= len(self.ids) <= MOST_IDS:
            raise InvalidInput.of("where.ids", f"must be 1 to {MOST_IDS:,} ids")
        if self.principal is not None and not is_principal(self.principal):
            raise InvalidInput.of("where.principal", PRINCIPAL_RULE)
        if all(getattr(self, name) is None for name in _CONDITIONS):
            raise InvalidInput.of("where", f"must have at least one of {', '.join(_CONDITIONS)}")
        try:
            found = SearchQuery(
                query="*",
                tags=self.tags,
                tags_match=self.tags_match,
                entry_type=self.entry_type,
                filter=self.filter,
            ).entry_filter
        except InvalidInput as error:
            raise InvalidInput(
                [FieldError(f"where.{each.field}", each.message) for each in error.errors]
            ) from None
        return Selection(self.ids, found.tags, found.all_tags, found.entry_types, self.principal, found)
