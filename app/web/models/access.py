"""Requests and responses about who may read and change entries, assets and sources."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from app.contract.entries import MAX_TAG, MAX_TAGS
from app.contract.filters import FILTER_DESCRIPTION, FilterObject
from app.contract.principals import MAX_PRINCIPALS, Principal
from app.contract.validation import UNSET
from app.contract.vocabulary import EntryType, TagsMatch
from app.knowledge.permissions.changes import MOST_IDS, AccessChange, AccessSelection, ListChange
from app.web.models.requests import RequestBody

Principals = Annotated[list[Principal], Field(min_length=1, max_length=MAX_PRINCIPALS)]


class ListChangeBody(RequestBody):
    """A change of a list: either `set`, or `add` and `remove`."""

    set: Principals | None = Field(None, description="The new list; null: all.")
    add: Principals | None = Field(None, description="Principals to add. A list that is null stays null.")
    remove: Principals | None = Field(
        None,
        description="Principals to remove. An item without a list, or with no other principal, is refused.",
    )

    def change(self) -> ListChange:
        """The change for the service."""
        given = self.set if "set" in self.model_fields_set else UNSET
        return ListChange(given, self.add or (), self.remove or ())


class Where(RequestBody):
    """Which items are changed: those that pass all conditions. At least one is required."""

    ids: list[UUID] | None = Field(
        None, min_length=1, max_length=MOST_IDS, description="Ids of entries and assets."
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=MAX_TAG)]] | None = Field(
        None, min_length=1, max_length=MAX_TAGS, description="Tags, as in a search."
    )
    tags_match: TagsMatch = Field("any", description="Whether one tag or all are needed. Default: any.")
    entry_type: EntryType | Annotated[list[EntryType], Field(min_length=1)] | None = Field(
        None, description="Types, as in a search; the type of an asset is `chunk`."
    )
    filter: FilterObject | None = Field(
        None, description=f"{FILTER_DESCRIPTION} An asset passes if one of its chunks does."
    )
    principal: Principal | None = Field(
        None, description="Items whose readers or writers name this principal.", examples=["group:finance"]
    )

    def selection(self) -> AccessSelection:
        """The selection for the service."""
        return AccessSelection(**{name: getattr(self, name) for name in self.model_fields_set})


class AccessPatch(RequestBody):
    """A change of who may read and change entries and assets."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"where": {"tags": ["payroll"]}, "readers": {"set": ["group:finance", "group:hr"]}}],
        }
    )

    where: Where
    readers: ListChangeBody | None = Field(None, description="Who may read them. Default: unchanged.")
    writers: ListChangeBody | None = Field(None, description="Who may change them. Default: unchanged.")
    dry_run: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether to change nothing, and only count. Default: false."
    )
    cursor: str | None = Field(None, description="`next_cursor` of the former answer.")

    def change(self) -> AccessChange:
        """The change for the service."""
        readers = None if self.readers is None else self.readers.change()
        writers = None if self.writers is None else self.writers.change()
        return AccessChange(readers, writers)
