"""The models of the tools' structured output."""

from __future__ import annotations

from typing import Any

from app.contract.reading import EntryState
from app.contract.tools import SearchAnswer
from app.mcp.answers.hits import MAIN_FIELDS, MAIN_METADATA
from app.mcp.schemas.flattening import output_schema


def search_output_schema(model: type = SearchAnswer, place: str | None = None) -> dict[str, Any]:
    """The schema of `model`, with a search's answer at `place`, None: the model itself.

    Of the fields of hits and metadata, an answer with a token budget has the main ones.
    """
    schema = output_schema(model)
    answer = schema if place is None else schema["properties"][place]["anyOf"][0]
    answer["properties"]["results"]["items"]["required"] = [*MAIN_FIELDS, "citation", "content_cut", "flags"]
    answer["properties"]["metadata"]["required"] = list(MAIN_METADATA)
    return schema


def written_output_schema(model: type = EntryState, place: str | None = None) -> dict[str, Any]:
    """The schema of `model`, with a written entry at `place`, None: the model itself.

    Of the fields of an entry, one in quarantine has the main ones and `flags`.
    """
    schema = output_schema(model)
    entry = schema if place is None else schema["properties"][place]
    entry["required"] = ["id", "version", "quarantined"]
    return schema
