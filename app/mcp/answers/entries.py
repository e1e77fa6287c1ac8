"""The result of kb_get, and a written entry in the results of kb_add and kb_update."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from app.db.queries.knowledge.entries import Entry
from app.errors import InvalidInput
from app.knowledge.entries.sections import READ_LENGTH
from app.knowledge.quarantine.flagging import flags_of
from app.mcp.answers.citations import cite
from app.mcp.answers.described import list_facts, mark_of, texts_of, write_lines
from app.mcp.answers.passages import Marker
from app.mcp.answers.tool_answer import ToolAnswer, to_json


def answer_entry(entry: Entry, start: int) -> ToolAnswer:
    """Build the result for a part of an entry's text. Raises InvalidInput for a start beyond the text."""
    total = len(entry.content)
    if start >= total:
        raise InvalidInput.of("start", f"must be less than {total}, the number of characters of the text")
    part = entry.content[start : start + READ_LENGTH]
    end = start + len(part)
    marker = Marker(texts_of(entry))
    facts = [*list_facts(entry), f"version {entry.version}", f"id {entry.id}", *mark_of(entry)]
    cut = f" Characters {start} to {end} of {total}." if len(part) < total else ""
    more = f" Continue with start {end}." if end < total else ""
    citation = cite(entry)
    structured = {
        "entry": to_json(replace(entry, content=part)),
        "citation": to_json(asdict(citation)) | {"text": citation.text},
        "flags": flags_of(entry.metadata),
        "start": start,
        "total": total,
        "next_start": end if end < total else None,
    }
    text = marker.enclose("\n".join([*write_lines(entry), part]))
    return ToolAnswer(f"{', '.join(facts)}.{cut}{more} {marker.notice}\n\n{text}", structured)


def show_written(entry: Entry) -> dict[str, Any]:
    """The entry in plain JSON; of one in quarantine, only its id, version, flags and state."""
    if not entry.quarantined:
        return to_json(entry)
    return {
        "id": str(entry.id),
        "version": entry.version,
        "flags": flags_of(entry.metadata),
        "quarantined": True,
    }


def describe_state(entry: Entry) -> str:
    """In sentences: whether searches find the entry, whether only its readers find it, and who can release it."""
    if not entry.quarantined:
        found = f"Keyword search: ready; semantic search: {entry.embedding_status}."
        return found if entry.readers is None else f"{found} Only its readers find it."
    return (
        f"It is in quarantine (SUSPICIOUS: {', '.join(flags_of(entry.metadata))}): searches do not find it, and tools"
        " do not return its text. An admin can release it in the console or over HTTP."
    )
