"""Sample knowledge for a first look: what a small team that runs a booking service for marinas might keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

from app.contract.vocabulary import Audience

__all__ = ["QUERIES", "SampleDocument", "SampleEntry", "SampleQuery", "load_documents", "load_entries"]


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """One sample entry; `parent`, `sources` and `superseded_by` are external ids of earlier entries."""

    external_id: str
    entry_type: str
    title: str | None
    content: str
    tags: tuple[str, ...]
    roles: tuple[Audience, ...]
    confidence: float
    scope: str
    parent: str | None
    sources: tuple[str, ...]
    superseded_by: str | None
    is_verified: bool
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """One sample file as a caller would upload it."""

    external_id: str
    name: str
    media_type: str
    tags: tuple[str, ...]
    roles: tuple[Audience, ...]

    def read(self) -> bytes:
        """The file's bytes."""
        return files(__name__).joinpath("documents", self.name).read_bytes()


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """A query to try; the entry `expected` is among its best hits."""

    text: str
    expected: str


QUERIES = (
    SampleQuery("how do I order routes in vercel.json", expected="KNOW-004"),
    SampleQuery("Wie spiele ich ein Backup der Datenbank zurück?", expected="KNOW-015"),
    SampleQuery("ERR_CONN_RESET a few minutes after a deploy", expected="KNOW-012"),
)
"""Queries that show the samples well; a new user is given the first. None holds an apostrophe."""

_DOCUMENTS = (
    SampleDocument(
        "DOC-incident-handbook", "incident-handbook.pdf", "application/pdf", ("incident", "on-call"), ("all",)
    ),
    SampleDocument("DOC-datensicherung", "datensicherung.md", "text/markdown", ("backup", "postgres"), ("dev", "qa")),
    SampleDocument("DOC-api-guide", "api-guide.html", "text/html", ("api", "partners"), ("dev", "pm")),
    SampleDocument(
        "DOC-onboarding-guide",
        "onboarding-guide.docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ("onboarding", "team"),
        ("all",),
    ),
)


_ENTRY = TypeAdapter(SampleEntry)


def load_entries() -> list[SampleEntry]:
    """The sample entries, each after those that it refers to."""
    text = files(__name__).joinpath("entries.jsonl").read_text("utf-8")
    return [_ENTRY.validate_json(line) for line in text.splitlines()]


def load_documents() -> list[SampleDocument]:
    """The sample documents."""
    return list(_DOCUMENTS)
