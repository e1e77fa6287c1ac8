"""Errors as callers see them: RFC 9457 problem details as JSON, with plain messages for invalid fields."""

import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Scope

from app import errors
from app.contract.problems import ProblemType, type_of_error, type_of_status
from app.contract.validation import field_errors
from app.telemetry.logs import request_id
from app.web.insiders import find_insider
from app.web.monitoring import REFUSALS

SENT = "knowledge.sent_method"
"""The key of a request's scope with the method that was sent, where the request is served as another."""


class MethodTable:
    """The methods of the app's described paths; read when first needed, once all routers are in."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def of(self, path: str) -> frozenset[str]:
        """The methods of a request's path; empty if the description has no such path."""
        # A path without a parameter takes precedence over one with a parameter.
        if path in self._methods:
            return self._methods[path]
        return next((self._methods[t] for t, form in self._forms.items() if form.fullmatch(path)), frozenset())

    def takes(self, path: str, method: str) -> bool:
        """Whether the path supports the method; True if the description has no such path."""
        allowed = self.of(path)
        return not allowed or method in allowed

    @cached_property
    def _methods(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for route in self._app.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                found[route.path_format] = found.get(route.path_format, frozenset()) | frozenset(route.methods or ())
        return found

    @cached_property
    def _forms(self) -> Mapping[str, re.Pattern[str]]:
        return {path: re.compile(re.sub(r"\{[^{}]+\}", "[^/]+", path)) for path in self._methods if "{" in path}


def is_head(scope: Scope) -> bool:
    """Whether a request asks for the headers only: HEAD is served as GET, and must not change anything."""
    return bool(scope.get(SENT, scope["method"]) == "HEAD")


log = logging.getLogger("app.api")

MEDIA_TYPE = "application/problem+json"
SCHEMA: Mapping[str, str] = {"$ref": "#/components/schemas/Problem"}
METHOD_NOT_ALLOWED = "this path does not support this method"
Responses = dict[int | str, dict[str, Any]]


def problem_response(
    status: int,
    detail: str,
    *,
    field_errors: Sequence[errors.FieldError] = (),
    kind: ProblemType | None = None,
    limit: str | None = None,
    more: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer for one problem; without `kind`, of the type for requests that are refused as such. `more` are the
    members that only this kind has."""
    body: dict[str, Any] = {
        "type": (kind or type_of_status(status)).uri,
        "title": title_of(status),
        "status": status,
        "detail": detail,
        "request_id": request_id.get(),
    }
    if status == 422:
        body["errors"] = [{"field": e.field, "message": e.message} for e in field_errors]
    if limit is not None:
        body["limit"] = limit
    body |= more or {}
    # A refused text may have characters that JSON cannot contain: they are replaced.
    try:
        content = orjson.dumps(body)
    except orjson.JSONEncodeError:
        body = {k: v.encode(errors="replace").decode() if isinstance(v, str) else v for k, v in body.items()}
        body["errors"] = []
        content = orjson.dumps(body)
    return Response(content, status, dict(headers or {}), MEDIA_TYPE)


def unexpected_error() -> Response:
    """The response for an unexpected failure; only the log has the details."""
    return problem_response(500, "an unexpected error occurred")


def title_of(status: int) -> str:
    """The name of a status in RFC 9110; Python before 3.13 has older ones for two of them."""
    return {413: "Content Too Large", 422: "Unprocessable Content"}.get(status) or HTTPStatus(status).phrase


def respond_to(error: errors.KnowledgeError) -> Response:
    """The answer for one of the service's own errors."""
    kind = type_of_error(type(error))
    if kind is None:
        log.error("unmapped error", exc_info=error)
        return unexpected_error()
    status = kind.status
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    retry_after = getattr(error, "retry_after", None)
    if status in (429, 503):
        headers["Retry-After"] = str(max(1, math.ceil(retry_after or 1)))
    if status == 408:
        headers["Connection"] = "close"
    field_errors = error.errors if isinstance(error, errors.InvalidInput) else ()
    limit = error.limit if isinstance(error, errors.RateLimited) else None
    if limit is not None:
        REFUSALS.labels(limit).inc()
    return problem_response(
        status, str(error), field_errors=field_errors, kind=kind, limit=limit, more=_members_of(error), headers=headers
    )


def _members_of(error: errors.KnowledgeError) -> dict[str, Any]:
    if isinstance(error, errors.EntryExists | errors.AssetExists) and error.existing_id is not None:
        return {"existing_id": error.existing_id}
    if isinstance(error, errors.TooManyDeletions):
        return {"deletions": error.deletions, "assets": error.assets}
    return {}


def refusal_of(request: Request, error: errors.KnowledgeError) -> errors.KnowledgeError:
    """The error to report to the caller: a token of a tenant that was deleted in the meantime is not valid."""
    if isinstance(error, errors.TenantNotFound) and hasattr(request.state, "caller"):
        return tenant_gone()
    return error


def tenant_gone() -> errors.Unauthenticated:
    """The error for callers whose tenant was deleted."""
    return errors.Unauthenticated("the token's tenant does not exist")


def install_handlers(app: FastAPI) -> None:
    """Render every error of the app as a problem."""
    methods = MethodTable(app)

    @app.exception_handler(errors.KnowledgeError)
    async def knowledge_error(request: Request, error: errors.KnowledgeError) -> Response:
        if find_insider(request.scope) is not None:
            log.debug("a command failed", exc_info=error)
        response = respond_to(refusal_of(request, error))
        if response.status_code == 401 and (challenge := getattr(request.state, "challenge", None)):
            response.headers["WWW-Authenticate"] = challenge
        return response

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        forget_frames(error)
        # A path such as /knowledge/entries/bulk also matches the route of an entry, with other methods.
        if not methods.takes(request.url.path, request.method):
            return _method_not_allowed(methods.of(request.url.path))
        return respond_to_invalid(error)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        forget_frames(error)
        # FastAPI turns any error while it reads a body into its own 400.
        if isinstance(error.__cause__, errors.KnowledgeError):
            return respond_to(refusal_of(request, error.__cause__))
        # Starlette names only the methods of the first route with this path.
        if error.status_code == 405 and (allowed := methods.of(request.url.path)):
            return _method_not_allowed(allowed)
        headers = {k: v for k, v in (error.headers or {}).items() if k.lower() in ("allow", "retry-after")}
        # Starlette's texts are safe, but use the framework's terms.
        detail = {
            404: "there is nothing at this path",
            405: METHOD_NOT_ALLOWED,
            400: "the request body could not be read",
        }.get(error.status_code, title_of(error.status_code))
        return problem_response(error.status_code, detail, headers=headers)


def forget_frames(error: Exception) -> None:
    """Let the body of a refused request be freed at once. FastAPI's frame refers to the body and to the error, which
    refers to the frame, and this cycle would wait for the collector. The error must not be raised again.
    """
    reason: BaseException | None = error
    while reason is not None:
        reason.__traceback__ = None
        reason = reason.__cause__ or reason.__context__


def respond_to_invalid(error: RequestValidationError) -> Response:
    """The answer for a request whose form or body breaks a rule."""
    # A body that is still bytes was sent under another type than JSON.
    if isinstance(error.body, bytes) and error.body:
        return respond_to(errors.UnsupportedMediaType("send JSON, with Content-Type: application/json"))
    return respond_to(errors.InvalidInput(field_errors(error.errors())))


def _method_not_allowed(allowed: Collection[str]) -> Response:
    return problem_response(405, METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(sorted(allowed))})


def problem_of(error: errors.KnowledgeError) -> dict[str, Any]:
    """The problem as an object, for answers that hold several or have no status of their own.

    `retry_after`, in seconds, stands in for the header where there is one.
    """
    response = respond_to(error)
    body: dict[str, Any] = orjson.loads(response.body)
    if "retry-after" in response.headers:
        body["retry_after"] = int(response.headers["retry-after"])
    return body


def problems(*statuses: int, others: Responses | None = None) -> Responses:
    """OpenAPI's description of the problems of a path, in addition to `others`.

    It names the schema. Given the type, FastAPI would make a validator for each status of each path at the first
    request, which then took more than a second.
    """
    texts = {
        400: "A malformed HTTP request, or a body that cannot be read",
        401: "No valid token, or the token's tenant no longer exists",
        403: "The token lacks the required role",
        404: "The caller's tenant has no item with this id",
        408: "The request arrived too slowly",
        409: "The change contradicts what is stored",
        410: "The ranked list has expired: search again",
        412: "The item changed since it was read",
        413: "The input is larger than the limit",
        415: "An unsupported type of file or body",
        422: "A field is invalid",
        429: "A limit is reached; see Retry-After",
        431: "The request line and the headers are too long",
        500: "An unexpected error, logged with the request_id",
        501: "The body has a transfer coding that is not read",
        503: "The database is down; see Retry-After",
    }
    content = {MEDIA_TYPE: {"schema": SCHEMA}}
    return (others or {}) | {s: {"description": texts[s], "content": content} for s in sorted(statuses)}
