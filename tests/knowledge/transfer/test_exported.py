"""Lines of an export are checked when they are read."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

import pytest
from pgvector import HalfVector

from app.knowledge.transfer.export import read_asset, read_entry, read_part, read_record
from app.knowledge.transfer.records import REFUSALS, describe_refusal
from app.knowledge.transfer.restoration import read_header

ID, OTHER = "0190b8f6-0000-7000-8000-000000000001", "0190b8f6-0000-7000-8000-000000000002"
VECTOR = {
    "passage": 0,
    "char_start": 0,
    "char_end": 4,
    "vector": base64.b64encode(HalfVector([1.0, 0.0]).to_binary()).decode(),
}
ENTRY = {"kind": "entry", "id": ID, "title": None, "content": "text", "accesses": 2, "vectors": [VECTOR]}


def test_entry_has_its_vectors_only_if_they_are_wanted() -> None:
    entry = read_entry(ENTRY, with_vectors=True)
    assert (entry.id, entry.content, entry.accesses, entry.refers) == (UUID(ID), "text", 2, False)
    assert entry.vectors[0]["vector"].to_list() == [1.0, 0.0]
    assert read_entry({**ENTRY, "vectors": "none"}, with_vectors=False).vectors == ()
    assert "vectors" not in entry.columns


def test_entry_is_renamed_with_its_references() -> None:
    entry = read_entry({**ENTRY, "parent_id": OTHER, "source_ids": [OTHER, ID]}, with_vectors=False)
    assert entry.refers
    renamed = entry.renamed({OTHER: ID})
    assert renamed.links == {"id": ID, "parent_id": ID, "superseded_by_id": None, "source_ids": [ID, ID]}
    found = entry.found_as(UUID(OTHER))
    assert (found.id, found.columns["id"], found.columns["parent_id"]) == (UUID(OTHER), OTHER, OTHER)


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": "not an id"},
        {"id": 7},
        {"accesses": [1]},
        {"vectors": [{**VECTOR, "vector": "%"}]},
        {"vectors": [{**VECTOR, "passage": None}]},
        {"vectors": [{}]},
        {"vectors": 7},
    ],
)
def test_entry_that_cannot_be_read_is_refused_without_its_content(change: dict[str, Any]) -> None:
    with pytest.raises(REFUSALS) as refused:
        read_entry({**ENTRY, **change}, with_vectors=True)
    assert describe_refusal(refused.value) == "has a field that cannot be read"


@pytest.mark.parametrize("name", ["title", "content"])
def test_entry_with_too_many_marks_in_a_row_is_refused(name: str) -> None:
    assert read_entry({**ENTRY, name: "a" + "\u0301" * 30}, with_vectors=True).columns[name]
    with pytest.raises(REFUSALS) as refused:
        read_entry({**ENTRY, name: "a" + "\u0301" * 31}, with_vectors=True)
    assert describe_refusal(refused.value) == f"{name}: must have at most 30 combining marks in a row"


def test_assets_parts_and_records_without_a_field_are_refused() -> None:
    for read in (
        lambda: read_asset({"byte_size": 3}),
        lambda: read_asset({"id": ID, "byte_size": "3"}),
        lambda: read_part({"start": 0}),
        lambda: read_record("feedback", {"search_id": ID}, {}),
    ):
        with pytest.raises(REFUSALS) as refused:
            read()
        assert describe_refusal(refused.value) == "has a field that cannot be read"


def test_the_first_line_may_begin_with_a_byte_order_mark() -> None:
    assert read_header(b'\xef\xbb\xbf{"kind": "tenant"}') == {"kind": "tenant"}
