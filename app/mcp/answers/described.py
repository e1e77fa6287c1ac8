"""The head of a hit or an entry in a text: its facts, and the lines above its content."""

from __future__ import annotations

from collections.abc import Sequence

from app.db.queries.knowledge.entries import Entry
from app.db.queries.search.hits import StoredEntry
from app.knowledge.quarantine.flagging import flags_of
from app.mcp.answers.citations import cite
from app.mcp.answers.passages import mark_flags

Stored = StoredEntry | Entry


def list_facts(entry: Stored) -> list[str]:
    """What the service or its callers state about an entry, without any text that a caller wrote."""
    facts = [
        entry.entry_type,
        f"updated {entry.updated_at:%Y-%m-%d}",
        "verified" if entry.is_verified else "not verified",
        f"confidence {entry.confidence:g}",
    ]
    if entry.superseded_by_id is not None:
        facts.append(f"SUPERSEDED by {entry.superseded_by_id}")
    if entry.asset_id is not None and entry.metadata.get("ocr") is True:
        facts.append("recognised on an image, may contain errors")
    return facts


def mark_of(entry: Stored) -> list[str]:
    """The mark of an entry with suspicious content, if it has any."""
    flags = flags_of(entry.metadata)
    return [mark_flags(flags)] if flags else []


def write_lines(entry: Stored) -> list[str]:
    """Lines above the content, which callers wrote: they belong between the markers."""
    named = (
        ("source", cite(entry).text if entry.asset_id is not None else None),
        ("title", entry.title),
        ("tags", ", ".join(entry.tags)),
        ("external id", entry.external_id),
    )
    lines = [f"{name}: {value}" for name, value in named if value]
    return [*lines, *_write_lists(entry)] if isinstance(entry, Entry) else lines


def _write_lists(entry: Entry) -> list[str]:
    """Who may read and change the entry, where not all may."""
    lists = (("readers", entry.readers), ("writers", entry.writers))
    return [f"{name}: {', '.join(principals)}" for name, principals in lists if principals is not None]


def texts_of(entry: Stored) -> Sequence[str]:
    """All texts of an entry that an answer can show."""
    return (entry.content, *write_lines(entry))
