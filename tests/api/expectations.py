"""What answers must look like."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import httpx

PROBLEM = {"type", "title", "status", "detail", "request_id"}


def expect_problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The body of a problem with this status, its form checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert set(body) == PROBLEM | ({422: {"errors"}, 429: {"limit"}}.get(status, set()))
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    return body


def expect_fields(answer: httpx.Response, *fields: str) -> dict[str, Any]:
    """The body of a 422 that names these fields and no others."""
    body = expect_problem(answer, 422)
    assert {error["field"] for error in body["errors"]} == set(fields), body
    assert all(set(error) == {"field", "message"} and error["message"] for error in body["errors"])
    return body


def is_id(value: Any) -> bool:
    """Whether it is a UUID in its usual form."""
    return isinstance(value, str) and str(UUID(value)) == value


def is_time(value: Any) -> bool:
    """Whether it is an ISO 8601 time with a zone."""
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


def each(field: str, *values: Any) -> list[tuple[str, Any]]:
    """A field with each of these values, as cases of a parametrised test."""
    return [(field, value) for value in values]
