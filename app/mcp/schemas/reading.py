"""The arguments of the tools that read entries, documents and tags, described for language models."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.entries.entry import MAX_TAG
from app.knowledge.entries.inspection import MAX_POSITION
from app.knowledge.entries.sections import READ_LENGTH
from app.knowledge.paging import MAX_PAGE
from app.knowledge.vocabulary import TagSort
from app.web.rendering import PAGE_SIZE

MAX_HEADING = 500
"""Characters of a heading that is searched for."""

Position = Annotated[int, Field(strict=True, ge=0, le=MAX_POSITION)]


class GetArguments(BaseModel):
    """The entry to read."""

    model_config = ConfigDict(extra="forbid")

    entry_id: UUID = Field(description="The id of an entry or chunk, for example from a search.")
    start: Position = Field(
        0,
        description=f"The first character to read, from 0; at most {READ_LENGTH:,} characters are read. Continue a"
        " long entry with `next_start`.",
    )


class DocumentArguments(BaseModel):
    """The part of a document to read: a page, a section, or the text from a position on."""

    model_config = ConfigDict(extra="forbid")

    asset_id: UUID = Field(description="The `asset_id` of a passage that a search found.")
    page: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        None, description="The number of a page or slide, from 1, if the document has pages."
    )
    heading: Annotated[str, Field(min_length=1, max_length=MAX_HEADING)] | None = Field(
        None,
        description="A heading or a part of it, in any case: its section is read. If several headings match, the"
        " first is read, and `matches` lists them.",
    )
    start: Position | None = Field(
        None,
        description=f"The first character to read, from 0; at most {READ_LENGTH:,} characters are read. Continue with"
        " `next_start`, or start at a heading of `contents`.",
    )


class TagArguments(BaseModel):
    """A part of the list of tags."""

    model_config = ConfigDict(extra="forbid")

    prefix: Annotated[str, Field(max_length=MAX_TAG)] = Field(
        "", description="Only tags that start with these characters, in this case."
    )
    sort: TagSort = Field(
        "-count", description="`-count` lists the most used tags first, `tag` lists them by their characters."
    )
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_PAGE)] = Field(
        PAGE_SIZE, description=f"Maximum number of tags, 1 to {MAX_PAGE}."
    )
    cursor: Annotated[str, Field(max_length=1_000)] | None = Field(
        None, description="The `next_cursor` of the list before, for its next page."
    )


class FetchArguments(BaseModel):
    """The result to fetch, as hosted assistants name it."""

    model_config = ConfigDict(extra="forbid")

    id: UUID = Field(description="The id of a result of the tool `search`.")
