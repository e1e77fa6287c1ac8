"""Count and read the lines of a file, and parse records as entries."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from app.documents.parsed import ParseLimits
from app.errors import InvalidInput
from app.knowledge.entries.drafts import EntryDraft, read_draft

MAX_RECORD = 4 << 20
"""Most characters of one record, of lines bytes, so that a file of any size is read in bounded memory."""
MAX_EXPORTED = 2 * MAX_RECORD
"""Most bytes of a line of an export: an entry with its vectors, and with numbers that the database writes out."""
MAX_ASSET = 4 * ParseLimits().max_characters + MAX_RECORD
"""Most bytes of such a line of an asset, which has all of its text."""
ASSET = b'{"kind":"asset",'
TOO_LONG = "is longer than {:,} bytes"
PIECE = 1 << 16
"""Bytes or characters that are read at once."""
MOST_NAMES, MOST_NAME = 10, 40
"""Most fields in an error, and most characters of each."""
REFERENCES = ("parent_id", "source_ids", "superseded_by_id")
"""Fields of an entry that have ids of other entries."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a file: its line number, its id in the file, its other fields, and its references."""

    number: int
    old_id: str | None
    draft: EntryDraft
    references: Mapping[str, list[str]]


def parse_record(number: int, given: Any) -> Line | None:
    """Parse an entry; return None for one whose text is empty. The message of the ValueError is shown to the user."""
    if not isinstance(given, dict):
        raise ValueError("is not an object with fields")
    text = "content"
    if "_id" in given and "content" not in given:
        text = "text"
    if text not in given:
        raise ValueError(f"has no field {text}; its fields are: {_list_names(given)}")
    if text == "text":
        given = _from_beir(given)
    content = given["content"]
    if content is None or (isinstance(content, str) and not content.strip()):
        return None
    values = {name: value for name, value in given.items() if name not in ("id", *REFERENCES)}
    if isinstance(expires := values.get("expires_at"), str):
        try:
            values["expires_at"] = datetime.fromisoformat(expires)
        except ValueError:
            raise ValueError("expires_at: must be a date and time with a time zone") from None
    references: dict[str, list[str]] = {}
    for name in REFERENCES:
        value = given.get(name)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, str) for item in listed):
            raise ValueError(f"{name}: must hold ids")
        if listed:
            references[name] = [item.lower() for item in listed]
    try:
        draft = read_draft(values)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    old_id = given.get("id")
    return Line(number, old_id.lower() if isinstance(old_id, str) else None, draft, references)


def _list_names(given: Mapping[Any, Any]) -> str:
    # A lone surrogate cannot be written anywhere.
    names = sorted(str(name)[:MOST_NAME].encode(errors="backslashreplace").decode() for name in given)
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "") or "none"


def _from_beir(given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"external_id": str(given["_id"]), "content": given.get("text")}
    if isinstance(title := given.get("title"), str) and title.strip():
        values["title"] = title
    if isinstance(metadata := given.get("metadata"), dict) and metadata:
        values["metadata"] = metadata
    return values


def count_lines(file: Path) -> int:
    """Count the lines of a file in constant memory; the last one may have no end."""
    count, last = 0, b"\n"
    with file.open("rb") as stream:
        while piece := stream.read(1 << 20):
            count, last = count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a file, counted from 1: its text, or the reason why it was not read."""

    number: int
    text: bytes = b""
    error: str | None = None


def read_lines(file: Path, *, exported: bool = False) -> Iterator[TextLine]:
    """Yield the lines that are not blank; of one above its bound only the error. `exported`: those of an export."""
    with file.open("rb") as stream:
        for number in itertools.count(1):
            most = MAX_EXPORTED if exported else MAX_RECORD
            raw = stream.readline(most + len(b"\r\n"))
            if not raw:
                return
            if exported and raw.startswith(ASSET) and not raw.endswith(b"\n"):
                most = MAX_ASSET
                raw += stream.readline(most + len(b"\r\n") - len(raw))
            text = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if len(raw.rstrip(b"\r\n")) > most:
                yield TextLine(number, error=TOO_LONG.format(most))
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(PIECE)
            elif text.strip():
                yield TextLine(number, text)
