"""The files and the questions about them, as the collections list them."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COLLECTIONS = ("pdf", "html")
"""Each has a tenant of its own, so that a file does not compete with the same text in another format."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the pages of its answer (none in formats without pages), and headings of which one is above it."""

    text: str
    pages: frozenset[int]
    headings: Sequence[str]


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file of a Debian package; `size` is its number of pages, or of bytes in formats without pages."""

    name: str
    layout: str
    package: str
    path: str
    size: int
    questions: Sequence[Question]


def load_files(collection: str) -> list[DocumentFile]:
    """The files of one of COLLECTIONS with their questions."""
    listed = tomllib.loads((Path(__file__).parent / f"{collection}.toml").read_text(encoding="utf-8"))
    return [
        DocumentFile(
            file["name"],
            file["layout"],
            file["package"],
            file["path"],
            file["pages"] if "pages" in file else file["bytes"],
            [Question(q["text"], frozenset(q.get("pages", ())), q["headings"]) for q in file["question"]],
        )
        for file in listed["file"]
    ]
