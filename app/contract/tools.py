"""What tools for language models answer about searches: hits with their sources, notes and the effect of a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Citation:
    """The source of a hit."""

    entry_id: UUID
    asset_id: UUID | None
    asset_name: str | None
    title: Annotated[
        str | None, Field(description="Of the document, else its file's name; of an entry, its own.")
    ]
    heading: Annotated[str | None, Field(description="The innermost heading above a passage.")]
    page: int | None
    page_end: int | None
    char_start: int | None
    char_end: int | None
    text: Annotated[str, Field(description="The citation on one line, for the references of an answer.")]
