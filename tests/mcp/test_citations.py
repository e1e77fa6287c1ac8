"""Citations that people can read, and notes about hits that may contradict each other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI

from app.contract.results import FoundEntry, Hit
from app.mcp.answers.hits import MOST, compare_hits
from app.mcp.answers.passages import LONGEST_NAME, cite
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import connect, succeed

NOW = datetime(2026, 1, 15, tzinfo=UTC)
ASSET = UUID(int=9)


def make_entry(title: str | None, name: str | None = None, **metadata: Any) -> FoundEntry:
    asset = None if name is None else ASSET
    return FoundEntry(
        UUID(int=1), "fact", title, "text", [], ["all"], 1.0, "global", None, [], None, False, asset, None,
        metadata, name, 0, NOW, NOW,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("title", "name", "metadata", "text"),
    [
        ("Incident handbook > Payments > 5.3 Payments are pending", "handbook.pdf",
         {"headings": ["Payments", "5.3 Payments are pending"], "page": 2},
         "Incident handbook, p. 2, 5.3 Payments are pending"),
        ("Handbook > Refunds", "h.docx", {"headings": ["Refunds"], "page": 2, "page_end": 4},
         "Handbook, pp. 2–4, Refunds"),
        ("Handbook > Refunds", "h.md", {"headings": ["Handbook", "Refunds"]}, "Handbook, Refunds"),
        ("Our handbook > Refunds", "h.md", {"headings": ["Handbook", "Refunds"]}, "Our handbook, Refunds"),
        ("Refunds", "h.md", {"headings": ["Refunds"]}, "h.md, Refunds"),
        (None, "notes.txt", {"char_start": 0, "char_end": 90}, "notes.txt, characters 0 to 90"),
        ("Notes", "notes.txt", {"page": True, "headings": "x"}, "Notes"),
        (None, "a\nb.txt", {}, "a b.txt"),
        ("x" * 500, None, {}, "x" * (LONGEST_NAME - 1) + "…"),
        ("Opening\n\nhours", None, {"page": 3, "headings": ["x"]}, "Opening hours"),
        (None, None, {"page": 3}, f"entry {UUID(int=1)}"),
    ],
)  # fmt: skip
def test_a_citation_names_document_page_and_heading(
    title: str | None, name: str | None, metadata: dict[str, Any], text: str
) -> None:
    assert cite(make_entry(title, name, **metadata)).text == text


def make_hit(number: int, content: str, **fields: Any) -> Hit:
    stored = replace(make_entry(None), id=UUID(int=number), content=content)
    values = {name: getattr(stored, name) for name in FoundEntry.__dataclass_fields__} | fields
    return Hit(
        **values, score=1.0, similarity=None, keyword_score=None, sources=[], snippet="", snippet_start=0,
        snippet_end=0, matched_terms=[], duplicates=0, group=None, validity=None, origin=None,
    )  # fmt: skip


def test_texts_that_are_alike_and_differ_are_noted_with_what_their_fields_show() -> None:
    older = make_hit(1, "The harbour opens at six in the morning", is_verified=True)
    newer = make_hit(2, "The harbour opens at seven in the morning", updated_at=NOW + timedelta(days=1), confidence=0.5)
    (note,) = compare_hits([newer, older])
    assert (note.kind, list(note.hits)) == ("differing", [newer.id, older.id])
    assert note.text == (
        "Hits 1 and 2 have texts that are alike and differ: hit 2 is verified, hit 1 is not, hit 1 has the"
        " confidence 0.5, hit 2 1, hit 1 was changed later than hit 2. Compare them before you rely on one."
    )


def test_equal_short_and_unlike_texts_are_not_noted() -> None:
    contents = [
        *("The harbour opens at six", "the HARBOUR opens: at six!", "Six cranes", "Six ships"),
        "Refunds are paid by the bank within a week",
    ]
    assert compare_hits([make_hit(number, text) for number, text in enumerate(contents)]) == []


def test_a_superseded_hit_is_noted_and_not_compared_with_its_successor() -> None:
    old = make_hit(1, "The harbour opens at six in the morning", superseded_by_id=UUID(int=2))
    new = make_hit(2, "The harbour opens at seven in the morning")
    assert [note.text for note in compare_hits([old, new])] == ["Hit 1 is superseded by hit 2."]
    assert [note.text for note in compare_hits([old])] == [f"Hit 1 is superseded by entry {UUID(int=2)}."]


def test_notes_are_few() -> None:
    hits = [make_hit(number, f"The harbour opens at {number} in the morning") for number in range(30)]
    assert len(compare_hits(hits)) == MOST


async def test_an_answer_points_out_superseded_hits(app: FastAPI, admin: Caller, reader: Caller) -> None:
    new = await admin.add("The harbour opens at seven in the morning", is_verified=True)
    old = await admin.add("The harbour opens at six in the morning", superseded_by_id=new["id"])
    async with connect(app, reader.token) as client:
        found, text = await succeed(client, "kb_search", query="harbour opens", include_superseded=True)
        brief, said = await succeed(
            client, "kb_search", query="harbour opens", include_superseded=True, token_budget=1_000
        )
        current, _ = await succeed(client, "kb_search", query="harbour opens")
    (note,) = found["notes"]
    assert (note["kind"], note["hits"]) == ("superseded", [old["id"], new["id"]])
    assert f"Note: {note['text']}" in text
    assert f"SUPERSEDED by {new['id']}" in text
    assert f"Note: {brief['notes'][0]['text']}" in said
    assert current["notes"] == []
