"""Answers of the Python client: how they are read, kept and shown."""

import json
import pickle
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from knowledge_client import Explanation, FacetValue, Feedback, LegExplanations, Problem, SourceStatus
from knowledge_client.answers import Answer, Mismatch, write_json

ID = UUID("0198c5a2-7d1e-7a60-8d0b-3d5f0a4c9e11")
GIVEN: dict[str, Any] = {"search_id": str(ID), "entry_id": str(ID), "relevant": True, "at": "2026-01-15T09:30:00Z"}
AT = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)


class Sample(Answer):
    """One field of each form."""

    share: float
    sizes: dict[str, int | None]
    parts: list[Feedback]
    plain: Any
    note: str | None = None


SAMPLE: dict[str, Any] = {"share": 1, "sizes": {"a": 1, "b": None}, "parts": [GIVEN], "plain": {"x": [1]}}


def test_json_is_read_into_types() -> None:
    found = Sample.model_validate_json(json.dumps(SAMPLE).encode())
    assert (found.share, type(found.share), found.sizes, found.plain) == (1.0, float, {"a": 1, "b": None}, {"x": [1]})
    assert found.parts == [Feedback(search_id=ID, entry_id=ID, relevant=True, at=AT)]
    assert found.note is None


def test_fields_of_a_newer_service_are_kept() -> None:
    found = Feedback.model_validate({**GIVEN, "weight": 2})
    assert found.model_extra == {"weight": 2}
    assert found != Feedback.model_validate(GIVEN)
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301


def test_values_that_a_newer_service_adds_to_a_set_are_kept() -> None:
    assert Problem.model_validate({"type": "/problems/new", "title": "t", "status": 499, "detail": "d"}).status == 499


@pytest.mark.parametrize("value", ["text", 1, 1.5, True])
def test_a_value_of_several_types_keeps_its_own(value: Any) -> None:
    found = FacetValue.model_validate({"value": value, "count": 1}).value
    assert (found, type(found)) == (value, type(value))


def test_the_form_of_a_part_decides_its_type() -> None:
    ran = {"strategy": "exact", "candidates": 1, "passages_in_tenant": 1}
    found = LegExplanations.model_validate({"semantic": ran, "keyword": {"strategy": None}})
    assert [type(leg).__name__ for leg in (found.semantic, found.keyword)] == ["SemanticExplanation", "PinnedLeg"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"share": "1"}, "share"),
        ({"share": True}, "share"),
        ({"sizes": {"a": "1"}}, "sizes.a"),
        ({"sizes": []}, "sizes"),
        ({"parts": [GIVEN, {**GIVEN, "at": "soon"}]}, "parts.1.at"),
        ({"parts": [{**GIVEN, "entry_id": 7}]}, "parts.0.entry_id"),
        ({"parts": [{"search_id": str(ID)}]}, "parts.0.entry_id"),
        ({"parts": None}, "parts"),
        ({"parts": [None]}, "parts.0"),
        ({"note": 7}, "note"),
    ],
)
def test_a_value_of_another_form_is_named_by_its_place(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(Mismatch) as failed:
        Sample.model_validate({**SAMPLE, **changes})
    assert failed.value.place == place


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"null", b"\xff"])
def test_another_document_is_refused(content: bytes) -> None:
    with pytest.raises(Mismatch, match="the answer does not have the expected form"):
        Feedback.model_validate_json(content)


def test_an_answer_cannot_be_changed_and_shows_its_fields() -> None:
    found = Feedback.model_validate(GIVEN)
    with pytest.raises(AttributeError, match="cannot be changed"):
        found.relevant = False  # type: ignore[misc]
    assert repr(found).startswith(f"Feedback(search_id={ID!r}, ")
    sample = Sample.model_validate(SAMPLE)
    assert sample.model_dump()["parts"] == [{"search_id": ID, "entry_id": ID, "relevant": True, "at": AT}]
    assert sample.model_dump(mode="json", include={"parts", "note"}) == {"parts": [GIVEN], "note": None}


def test_an_answer_has_the_fields_of_its_bases() -> None:
    assert {"name", "missing"} <= set(SourceStatus.__mro__[1].__annotations__) | set(SourceStatus.__annotations__)
    with pytest.raises(Mismatch, match="name does not have"):
        SourceStatus.model_validate({})
    with pytest.raises(Mismatch, match="mode does not have"):
        Explanation.model_validate({})


def test_requests_may_have_ids_times_vectors_and_any_text() -> None:
    body = {"id": ID, "at": AT, "vector": np.array([0.5, 1.0]), "tags": ("ü", "\ud800"), "nested": {"set": {1}}}
    assert json.loads(write_json(body)) == {
        "id": str(ID),
        "at": "2026-01-15T09:30:00Z",
        "vector": [0.5, 1.0],
        "tags": ["ü", "\ud800"],
        "nested": {"set": [1]},
    }
    assert write_json({"a": "ü"}) == '{"a":"ü"}'.encode()
    with pytest.raises(TypeError, match="object cannot be sent as JSON"):
        write_json({"a": object()})
