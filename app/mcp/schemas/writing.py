"""The arguments of the tools that write and administer, described for language models."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.entries.entry import MAX_BULK
from app.web.models.entries import BulkRequest, EntryPatch, NewEntry
from app.web.models.model_changes import NewModelChange

MAX_VERSION = 2**63 - 1
"""The largest version that the database can store."""

Version = Annotated[int, Field(strict=True, ge=1, le=MAX_VERSION)]

VERSION_TEXT = (
    "The version of the entry that you have read. If the entry has changed since then, nothing is done."
    " Omit it to ignore other changes."
)


class NoArguments(BaseModel):
    """No arguments."""

    model_config = ConfigDict(extra="forbid")


class BulkArguments(BulkRequest):
    """1 to 1,000 entries."""

    # The HTTP schema refers to a component; here it contains the schema of an entry.
    entries: Annotated[
        list[Any],
        WithJsonSchema(
            {"type": "array", "minItems": 1, "maxItems": MAX_BULK, "items": NewEntry.model_json_schema()}
        ),
    ] = Field(min_length=1, max_length=MAX_BULK)


class UpdateArguments(EntryPatch):
    """Changes to an entry. Omitted fields are unchanged; null clears a field that may be empty."""

    MEANINGFUL_NULLS: ClassVar = (
        *(
            "title",
            "parent_id",
            "language",
            "expires_at",
            "superseded_by_id",
            "external_id",
            "readers",
            "writers",
        ),
    )

    entry_id: UUID = Field(description="The id of the entry to change.")
    version: Version | None = Field(None, description=VERSION_TEXT)

    def draft(self) -> EntryDraft:
        """The fields to change."""
        given = self.model_fields_set & EntryPatch.model_fields.keys()
        return EntryDraft(**{name: getattr(self, name) for name in given})


class DeleteArguments(BaseModel):
    """The entry to delete."""

    model_config = ConfigDict(extra="forbid")

    entry_id: UUID = Field(description="The id of the entry to delete.")
    version: Version | None = Field(None, description=VERSION_TEXT)


class RebuildArguments(NewModelChange):
    """What to do with the vectors of the knowledge base."""

    MEANINGFUL_NULLS: ClassVar = ("rate", "switch_at_overlap")

    action: Literal["start", "status", "switch", "switch_back", "end"] = Field(
        "start",
        description="'start', the default, creates all vectors again. 'status' shows the progress. 'switch' makes"
        " searches use the new model, 'switch_back' the old one. 'end' keeps the model in use and removes the vectors"
        " of the other one.",
    )

    @property
    def names_model(self) -> bool:
        """Whether a model is named; without a name, the model in use is rebuilt."""
        return (self.provider, self.model, self.dimensions) != (None, None, None)
