"""The result of kb_get."""

from __future__ import annotations

from dataclasses import asdict, replace

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
    hidden = ["QUARANTINED"] if entry.quarantined else []
    facts = [*list_facts(entry), f"version {entry.version}", f"id {entry.id}", *mark_of(entry), *hidden]
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
