"""The beginning of an entry's text in a list."""

from __future__ import annotations

from app.db.queries.knowledge.entries import Entry
from app.knowledge.search.answer.snippet import SnippetMaker

LOOKED_AT = 2_000
"""Characters of the text that the excerpt is taken from."""


def excerpt_of(entry: Entry) -> str:
    """The first words as a reader sees them, without marks of Markdown or headings that the title repeats."""
    return SnippetMaker("").make(entry.title, entry.content[:LOOKED_AT], entry.language, (), None).text
