"""Answers are read into models; also the paths and headers that calls share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import UUID

from knowledge_client.answers import Answer, Mismatch
from knowledge_client.errors import MalformedId, UnexpectedAnswer
from knowledge_client.exchange import Exchange
from knowledge_client.fields import Id
from knowledge_client.transport import Request

M = TypeVar("M", bound=Answer)


def ask(request: Request, model: type[M]) -> Exchange[M]:
    """One request and its answer. Raises UnexpectedAnswer when the answer is not the service's."""
    response = yield request
    try:
        return model.model_validate_json(response.content)
    except Mismatch as error:
        raise UnexpectedAnswer(f"{request.method} {request.path}: {error}") from error


def get(path: str, model: type[M], params: Mapping[str, Any] | None = None) -> Exchange[M]:
    """Send a request that only reads."""
    return ask(Request("GET", path, params=params or {}), model)


def post(path: str, body: Mapping[str, Any], model: type[M]) -> Exchange[M]:
    """Send JSON with a request that has the same effect once or twice."""
    return ask(Request("POST", path, json=body), model)


def path_of(collection: str, item: Id, *more: str, root: str = "/knowledge") -> str:
    """A path below the root. Raises MalformedId."""
    try:
        item_id = str(UUID(str(item)))
    except ValueError:
        raise MalformedId(f"{str(item)[:100]!r} is not an id: ids are UUIDs") from None
    return "/".join((root, collection, item_id, *more))
