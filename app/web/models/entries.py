"""Requests and responses of the entry endpoints."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field, WithJsonSchema

from app.contract.principals import MAX_PRINCIPALS, Principal
from app.contract.vocabulary import LANGUAGES, Audience, Scope, WritableType
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.entries.entry import (
    MAX_BULK,
    MAX_CONTENT,
    MAX_EXTERNAL_ID,
    MAX_ROLES,
    MAX_SOURCES,
    MAX_TAG,
    MAX_TAGS,
    MAX_TITLE,
)
from app.web.models.requests import Moment, RequestBody

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class EntryFields(RequestBody):
    """Fields of an entry. An omitted field keeps its value in an existing entry and gets its default in a new one."""

    entry_type: WritableType = Field(
        "fact",
        description="decision: a choice and its reasons; lesson: learnt from experience; insight and summary: derived"
        " from other entries (source_ids); template: text to fill in; temp_note: a temporary note. New entries: fact.",
    )
    title: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_TITLE,
        description="The subject in a few words; words in the title count more in searches. Null removes it.",
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=MAX_TAG)]] = Field(
        default_factory=list,
        max_length=MAX_TAGS,
        description="Subjects; entries that share two tags are related. New entries have none.",
    )
    roles: list[Audience] = Field(
        ["all"],
        min_length=1,
        max_length=MAX_ROLES,
        description="The audience; not a permission. New entries: all.",
    )
    confidence: Share = Field(1.0, description="The author's confidence, 0 to 1. New entries: 1.")
    scope: Scope = Field(
        "global",
        description="Whether the entry applies everywhere or to one project only. New entries: global.",
    )
    parent_id: UUID | None = Field(
        None, description="The entry of which this one is a part. Null removes the relation."
    )
    source_ids: list[UUID] = Field(
        default_factory=list, max_length=MAX_SOURCES, description="Entries from which this one was derived."
    )
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Any other data, as a JSON object, which replaces the stored one; searches can filter by it. The"
        " service sets `flags`, which names what is suspicious in the entry.",
    )
    language: Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(LANGUAGES)})] | None = Field(
        None,
        description="A Postgres text search configuration, e.g. english or german. Null has it detected"
        " again, and so does a new text without a language.",
    )
    expires_at: Moment | None = Field(
        None,
        description="Date and time with a time zone; the entry is hidden from then on. Null: it does not expire.",
    )
    superseded_by_id: UUID | None = Field(
        None,
        description="The entry that replaces this one; searches skip this one. Null: no entry replaces it.",
    )
    is_verified: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether a person has verified the content. New entries: false."
    )
    external_id: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_EXTERNAL_ID,
        description="Your own id; writing with the same id again updates this entry. Null in a new entry"
        " means no id, and in a patch removes the id.",
    )
    readers: list[Principal] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PRINCIPALS,
        description="Who may read the entry: groups of the tokens and users, of which you are one. Null: all readers in"
        " the tenant. New entries: null.",
        examples=[["group:finance", "user:jane"]],
    )
    writers: list[Principal] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PRINCIPALS,
        description="Who of its readers with the role creator may change the entry; you are one of them. Null: all of"
        " them. New entries: null.",
        examples=[["group:payroll"]],
    )

    def draft(self) -> EntryDraft:
        """The fields that the caller sent."""
        return EntryDraft(**{name: getattr(self, name) for name in self.model_fields_set})


class NewEntry(EntryFields):
    """An entry to store."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "content": "Routes in vercel.json are matched from top to bottom; the catch-all comes last.",
                    "title": "Route order",
                    "tags": ["vercel", "routing"],
                    "entry_type": "lesson",
                }
            ]
        },
    )

    content: str = Field(
        min_length=1,
        max_length=MAX_CONTENT,
        description="The text, self-contained; 1 to 100,000 characters.",
    )


class EntryPatch(EntryFields):
    """Changes to an entry. Omitted fields are unchanged; null clears a field that may be empty."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tags": ["vercel"]}]})

    content: str = Field("", min_length=1, max_length=MAX_CONTENT)


class BulkRequest(RequestBody):
    """1 to 1,000 entries, each with its own outcome."""

    entries: Annotated[
        list[Any],
        WithJsonSchema(
            {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_BULK,
                "items": {"$ref": "#/components/schemas/NewEntry"},
            }
        ),
    ] = Field(min_length=1, max_length=MAX_BULK)
