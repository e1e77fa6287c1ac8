"""Complete FastAPI's OpenAPI document with problems, headers and examples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fastapi import FastAPI

from app.api.openapi.examples import REQUEST_ID, ExampleMaker
from app.errors import FieldError
from app.web.headers import REQUEST_ID as REQUEST_ID_HEADER
from app.web.headers import RETRY_AFTER, WWW_AUTHENTICATE, Headers
from app.web.problem_types import TYPES
from app.web.problems import MEDIA_TYPE, problems, title_of

ANYWHERE = (400, 408, 431, 500, 501)
"""Statuses that any request may get, before or around its handler."""

_WRONG_FIELD = FieldError("limit", "must be between 1 and 50")
_PROBLEM: Mapping[str, Any] = {"$ref": "#/components/schemas/Problem"}
_DETAILS = {
    400: "the request body could not be read",
    401: "send a token: Authorization: Bearer <token>",
    403: "this requires the role creator",
    404: "there is no entry with this id",
    408: "the request arrived too slowly",
    409: "another entry has this external_id",
    410: "the ranked list of this cursor is not available any more; search again",
    412: "the entry changed since it was read",
    413: "the request body is larger than the limit of 2097152 bytes",
    415: "send JSON, with Content-Type: application/json",
    422: str(_WRONG_FIELD),
    429: "the tenant has reached its limit of requests per minute",
    431: "the request line and the headers are longer than the limit of 65536 bytes",
    500: "an unexpected error occurred",
    501: "the only transfer coding that is read is chunked",
    503: "the database is not reachable at the moment",
}
_HEADERS: dict[int, Headers] = {401: WWW_AUTHENTICATE, 429: RETRY_AFTER, 503: RETRY_AFTER}

_NAMES = {
    "AuditModel": "AuditRecord",
    "Body_upload_asset": "NewAsset",
    "NewSubscriptionModel": "SubscriptionWithSecret",
    "RelatedModel": "RelatedEntry",
    "Weights": "AppliedWeights",
    "WeightsModel": "Weights",
}
"""Names that callers would not understand, and their replacements."""


def describe(app: FastAPI) -> None:
    """Complete the app's OpenAPI document when it is first requested."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to change the document


def _complete(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        if name.startswith("Body_"):  # a form's, for which FastAPI has no setting
            schema["additionalProperties"] = False
    make = ExampleMaker(schemas)
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in problems(*ANYWHERE).items():
                operation["responses"].setdefault(
                    str(status),
                    {
                        "description": response["description"],
                        "content": {MEDIA_TYPE: {"schema": {**_PROBLEM}}},
                    },
                )
            operation["responses"] = dict(sorted(operation["responses"].items()))
            for parameter in operation.get("parameters", ()):
                if parameter["required"] and "example" not in parameter:
                    parameter["example"] = make.of(parameter["schema"], parameter["name"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                _exemplify(content, make, complete=False)
            for status, response in operation["responses"].items():
                _complete_response(int(status), response, make)
    _rename(document, {name: _subject(name, schemas) for name in schemas})


def _subject(name: str, schemas: Collection[str]) -> str:
    """The component's name for callers: `HitModel` is a `Hit`."""
    if name in _NAMES:
        return _NAMES[name]
    short = name.removesuffix("Model")
    return name if short in schemas else short


def _rename(document: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename components, their titles and every reference to them."""
    components = document["components"]
    components["schemas"] = {names[n]: {**s, "title": names[n]} for n, s in components["schemas"].items()}
    nodes: list[Any] = [document]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if isinstance(reference := node.get("$ref"), str):
                prefix, _, name = reference.rpartition("/")
                node["$ref"] = f"{prefix}/{names[name]}"
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node


def _complete_response(status: int, response: dict[str, Any], make: ExampleMaker) -> None:
    content = response.get("content", {})
    if any(part.get("schema") == _PROBLEM for part in content.values()):
        # FastAPI declares a problem under the media type of the path's responses.
        response["content"] = {MEDIA_TYPE: {"schema": {**_PROBLEM}, "example": make_problem(status)}}
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
    else:
        for part in content.values():
            _exemplify(part, make, complete=True)
    response["headers"] = response.get("headers", {}) | REQUEST_ID_HEADER


def _exemplify(content: dict[str, Any], make: ExampleMaker, *, complete: bool) -> None:
    if "example" not in content and "examples" not in content:
        content["example"] = make.of(content.get("schema", {}), "", complete=complete)


def make_problem(status: int) -> dict[str, Any]:
    """Make an example of a problem with this status."""
    detail = _DETAILS.get(status, title_of(status))
    problem: dict[str, Any] = {
        "type": next(kind for kind in TYPES.values() if kind.status == status).uri,
        "title": title_of(status),
        "status": status,
        "detail": detail,
        "request_id": REQUEST_ID,
    }
    if status == 422:
        problem["errors"] = [{"field": _WRONG_FIELD.field, "message": _WRONG_FIELD.message}]
    return problem
