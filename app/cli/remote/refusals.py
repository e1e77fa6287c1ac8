"""The service's own errors, read from the problems that it answers with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from app import errors
from app.web.problem_types import TYPES
from app.web.rendering import ACCESS

BY_URI = {kind.uri: kind.error for kind in TYPES.values() if kind.error is not None}


def read_refusal(status: int, body: bytes, retry_after: float | None) -> errors.KnowledgeError:
    """The error that the service reported; a plain one for an answer that is not the service's."""
    try:
        problem = json.loads(body)
        detail = str(problem["detail"])
    except (ValueError, LookupError, TypeError):
        return errors.KnowledgeError(
            f"KB_URL: the answer has the status {status} and is not one of the service; check the address"
        )
    # A header is an option of programs; people set the variable.
    detail = detail.replace(f"send {ACCESS}: all (KB_ACCESS=all for commands)", "set KB_ACCESS=all")
    return _build(BY_URI.get(str(problem.get("type"))), problem, detail, retry_after)


def _build(
    kind: type[errors.KnowledgeError] | None,
    problem: Mapping[str, Any],
    detail: str,
    retry_after: float | None,
) -> errors.KnowledgeError:
    if kind is None:
        return errors.KnowledgeError(detail)
    if issubclass(kind, errors.InvalidInput):
        found = problem.get("errors") or [{"field": "request", "message": detail}]
        return errors.InvalidInput([errors.FieldError(e["field"], e["message"]) for e in found])
    if issubclass(kind, errors.RateLimited):
        return errors.RateLimited(detail, retry_after or 1.0, problem.get("limit"))
    if issubclass(kind, errors.EntryExists):
        existing = problem.get("existing_id")
        return errors.EntryExists(detail, UUID(existing) if existing else None)
    if issubclass(kind, errors.AssetExists):
        existing = problem.get("existing_id")
        return errors.AssetExists(detail, UUID(existing) if existing else None)
    if issubclass(kind, errors.TooManyDeletions):
        return errors.TooManyDeletions(detail, problem["deletions"], problem["assets"])
    if issubclass(kind, errors.DatabaseUnavailable):
        return errors.DatabaseUnavailable(detail)
    if issubclass(kind, errors.ProviderUnavailable):
        return errors.KnowledgeError(detail)
    if issubclass(kind, errors.Unauthenticated):
        return errors.Unauthenticated(f"KB_TOKEN: {detail}")
    return kind(detail)
