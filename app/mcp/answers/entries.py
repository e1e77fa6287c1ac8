"""Results of the tools that read, list and write entries, documents and tags."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from app.contract.assets import Asset
from app.contract.entries import Entry, RelatedEntry, RelatedResponse, TagCount
from app.contract.fields import Page
from app.contract.models import ModelChange
from app.contract.reading import DocumentPart, EntryState, ReadEntry, ReadPart
from app.contract.results import FoundEntry
from app.contract.saved_searches import SavedSearch
from app.contract.tools import ShownRelation, ShownRelations
from app.errors import InvalidInput
from app.knowledge.entries.reading import READ_LENGTH
from app.knowledge.quarantine import flags_of
from app.knowledge.reembedding.machine import explain_change
from app.mcp.answers.passages import (
    READABLE_LENGTH,
    Marker,
    Passage,
    ToolAnswer,
    cite,
    cut_passage,
    mark_flags,
    to_json,
)

Stored = FoundEntry | Entry


def list_facts(entry: Stored) -> list[str]:
    """Facts that the service or its callers state about an entry, without any text that a caller wrote."""
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
    named = [
        ("source", cite(entry).text if entry.asset_id is not None else None),
        ("title", entry.title),
        ("tags", ", ".join(entry.tags)),
        ("external id", entry.external_id),
    ]
    if isinstance(entry, Entry):
        named += [("readers", ", ".join(entry.readers or ())), ("writers", ", ".join(entry.writers or ()))]
    return [f"{name}: {value}" for name, value in named if value]


def texts_of(entry: Stored) -> Sequence[str]:
    """All texts of an entry that an answer can show."""
    return (entry.content, *write_lines(entry))


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
    read = ReadEntry(
        entry=replace(entry, content=part),
        citation=cite(entry).text,
        flags=flags_of(entry.metadata),
        start=start,
        total=total,
        next_start=end if end < total else None,
    )
    text = marker.enclose("\n".join([*write_lines(entry), part]))
    return ToolAnswer(f"{', '.join(facts)}.{cut}{more} {marker.notice}\n\n{text}", to_json(read))


def show_written(entry: Entry) -> EntryState:
    """The state of an entry that was written: the caller knows its text."""
    state = EntryState(entry.id, entry.version, entry.quarantined, flags_of(entry.metadata))
    if entry.quarantined:
        return state
    return replace(state, embedding_status=entry.embedding_status, readers=entry.readers, writers=entry.writers)


def show_fields(entry: Stored, passage: Passage) -> dict[str, Any]:
    """The fields of a ShownEntry, with the part of the content that the text has."""
    citation = cite(entry)
    same = ("id", "entry_type", "title", "tags", "external_id", "asset_id", "confidence", "is_verified", "updated_at")
    return {name: getattr(entry, name) for name in (*same, "superseded_by_id")} | {
        "citation": citation.text,
        "content": passage.text,
        "content_cut": passage.cut,
        "page": citation.page,
        "char_start": citation.char_start,
        "flags": flags_of(entry.metadata),
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


def answer_related(found: RelatedResponse) -> ToolAnswer:
    """Build the result for related entries."""
    if not found.results:
        return ToolAnswer("Nothing is related to it, or there is no such entry.", to_json(found))
    marker = Marker([text for item in found.results for text in texts_of(item)])
    shown = [(item, cut_passage(item.content, (0, 0), READABLE_LENGTH)) for item in found.results]
    blocks = [_write(number, item, passage, marker) for number, (item, passage) in enumerate(shown, 1)]
    head = f"{len(found.results)} of {found.metadata.total} related entries. {marker.notice}"
    relations = [
        ShownRelation(**show_fields(i, passage), relationship=i.relationship, overlap_count=i.overlap_count)
        for i, passage in shown
    ]
    return ToolAnswer("\n\n".join([head, *blocks]), to_json(ShownRelations(relations, found.metadata)))


def _write(number: int, item: RelatedEntry, passage: Passage, marker: Marker) -> str:
    shared = f" ({item.overlap_count} shared tags)" if item.overlap_count else ""
    cut = " (cut)" if passage.cut else ""
    facts = [f"{item.relationship}{shared}", *list_facts(item), f"id {item.id}", *mark_of(item)]
    return f"{number}. {', '.join(facts)}{cut}\n" + marker.enclose("\n".join([*write_lines(item), passage.text]))


def answer_tags(page: Page[TagCount]) -> ToolAnswer:
    """Build the result for a page of tags."""
    return _answer(page, "tag", "tags", [f"{item.tag} ({item.count})" for item in page.items])


def answer_saved_searches(page: Page[SavedSearch]) -> ToolAnswer:
    """Build the result for a page of saved searches."""
    lines = [f"{item.id}: {item.name}, query: {item.request.get('query')}" for item in page.items]
    return _answer(page, "saved search", "saved searches", lines)


def _answer(page: Page[Any], thing: str, things: str, lines: list[str]) -> ToolAnswer:
    structured = to_json(page)
    if not lines:
        return ToolAnswer(f"There are no {things}.", structured)
    more = f" More follow: continue with cursor {page.next_cursor}." if page.next_cursor else ""
    marker = Marker(lines)
    count = f"{len(lines)} {thing if len(lines) == 1 else things}"
    text = f"{count}.{more} {marker.notice}\n\n{marker.enclose(chr(10).join(lines))}"
    return ToolAnswer(text, structured)


SHOWN_CONTENTS = 60
"""Headings of the table of contents in the text; the structured output has all."""


def answer_part(asset: Asset, part: ReadPart) -> ToolAnswer:
    """Build the result for a part of a document."""
    lines = _list_lines(asset, part)
    marker = Marker([*lines, part.text])
    head = [f"Characters {part.start} to {part.end} of {part.total}."]
    if part.end < part.stop and part.stop < part.total:
        head.append("The page or section is cut.")
    if part.next_start is not None:
        head.append(f"Continue with start {part.next_start}.")
    if len(part.matches) > 1:
        head.append(f"{len(part.matches)} headings match; the first was read.")
    if asset.flags:
        head.append(f"{mark_flags(list(asset.flags))} (somewhere in the document).")
    head.append(marker.notice)
    read = DocumentPart(
        **{f.name: getattr(part, f.name) for f in fields(part)},
        asset_id=asset.id,
        name=asset.name,
        title=asset.title,
        total_pages=asset.total_pages,
        pages_without_text=asset.pages_without_text,
        flags=asset.flags,
    )
    text = marker.enclose("\n".join([*lines, part.text]))
    return ToolAnswer(f"{' '.join(head)}\n\n{text}", to_json(read))


def _list_lines(asset: Asset, part: ReadPart) -> list[str]:
    """Lines above the text, which callers or the document's author wrote."""
    lines = [f"document: {asset.name}"]
    if asset.title:
        lines.append(f"title: {asset.title}")
    for name, sections in (("heading", part.matches), ("contents", part.contents)):
        lines += [f"{name}: {s.title} (from character {s.start})" for s in sections[:SHOWN_CONTENTS]]
    return lines


STATES = {
    "filling": "The vectors are being created",
    "ready": "The vectors are complete, and searches use the old model",
    "switched": "Searches use the new vectors",
    "dropping": "The change has ended, and the vectors that are not in use are being removed",
}


def answer_change(change: ModelChange) -> ToolAnswer:
    """Describe a change in text and as structured output."""
    subject = f"Rebuild of {change.new.name}" if change.rebuild else f"{change.old.name} to {change.new.name}"
    done = f"{change.progress:.0%} of {change.entries} entries are done"
    lines = [f"{subject}: {change.state}. {STATES[change.state]}; {done}.", *explain_change(change)]
    return ToolAnswer("\n".join(lines), to_json(change))
