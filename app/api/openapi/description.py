"""Complete FastAPI's OpenAPI document with problems, headers and examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from app.api.openapi.examples import REQUEST_ID, ExampleMaker
from app.errors import FieldError
from app.web.problems import MEDIA_TYPE, problems, title_of

ANYWHERE = (400, 408, 431, 500)
"""Statuses that any request may get, before or around its handler."""

_WRONG_FIELD = FieldError("limit", "must be between 1 and 50")
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
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
    503: "the database is not reachable at the moment",
}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait before trying again.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 1,
    }
}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {
        "WWW-Authenticate": {
            "description": "Always Bearer.",
            "schema": {"type": "string"},
            "example": "Bearer",
        }
    },
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}


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
                    {"description": response["description"], "content": {MEDIA_TYPE: {"schema": _PROBLEM}}},
                )
            operation["responses"] = dict(sorted(operation["responses"].items()))
            for parameter in operation.get("parameters", ()):
                if parameter["required"] and "example" not in parameter:
                    parameter["example"] = make.of(parameter["schema"], parameter["name"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                _exemplify(content, make, complete=False)
            for status, response in operation["responses"].items():
                _complete_response(int(status), response, make)


def _complete_response(status: int, response: dict[str, Any], make: ExampleMaker) -> None:
    content = response.get("content", {})
    if any(part.get("schema") == _PROBLEM for part in content.values()):
        # FastAPI declares a problem under the media type of the path's responses.
        response["content"] = {MEDIA_TYPE: {"schema": _PROBLEM, "example": make_problem(status)}}
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
        return
    for part in content.values():
        _exemplify(part, make, complete=True)


def _exemplify(content: dict[str, Any], make: ExampleMaker, *, complete: bool) -> None:
    if "example" not in content and "examples" not in content:
        content["example"] = make.of(content.get("schema", {}), "", complete=complete)


def make_problem(status: int) -> dict[str, Any]:
    """Make an example of a problem with this status."""
    detail = _DETAILS.get(status, title_of(status))
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": title_of(status),
        "status": status,
        "detail": detail,
        "request_id": REQUEST_ID,
    }
    if status == 422:
        problem["errors"] = [{"field": _WRONG_FIELD.field, "message": _WRONG_FIELD.message}]
    return problem
