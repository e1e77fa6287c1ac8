"""Send requests to the service with retries, and turn its problems back into errors."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from asyncio import sleep
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast
from uuid import UUID

import httpx
import orjson
from pydantic import TypeAdapter

from app import errors
from app.cli.execution import Remote
from app.contract.problems import TYPES
from app.errors import KnowledgeError, ServiceUnreachable
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


T = TypeVar("T")
ATTEMPTS = 4
LONGEST_WAIT = 60.0
"""Seconds: a command that would have to wait longer before its next attempt fails with a message."""
FIRST_WAIT = 0.5
"""Seconds before the second attempt, unless Retry-After names others; each further wait is twice as long."""
TIMEOUT = httpx.Timeout(120.0, connect=10.0)
"""Seconds: a large manifest is planned in one request."""
PASSING = (429, 502, 503, 504)
"""Statuses of a refusal or a failure that passes."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends requests to one service. Its methods raise the KnowledgeError that the service reports."""

    remote: Remote
    http: httpx.AsyncClient

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        version: int | None = None,
        **form: Any,
    ) -> httpx.Response:
        """Send a request until it is answered; parameters that are None are omitted.

        `version` goes into If-Match; such a request is sent again only if it was refused as one too many. `form` has
        httpx's `data` and `files`. Raises ServiceUnreachable.
        """
        headers = {"Authorization": f"Bearer {self.remote.token}"}
        if self.remote.sees_all:
            headers[ACCESS] = "all"
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        if body is not None:
            headers["Content-Type"] = "application/json"
            form["content"] = orjson.dumps(body)
        shown = {name: _show(value) for name, value in (params or {}).items() if value is not None}
        unsure = False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = await self.http.request(
                    method, self.remote.url + path, params=shown, headers=headers, **form
                )
            except httpx.TransportError as error:
                if attempt == ATTEMPTS or version is not None:
                    raise self._unreachable(error) from error
                unsure = True
                await sleep(FIRST_WAIT * 2 ** (attempt - 1))
                continue
            # An earlier attempt without an answer may have deleted it.
            if response.is_success or (unsure and method == "DELETE" and response.status_code == 404):
                return response
            wait = _read_seconds(response.headers.get("retry-after"))
            again = response.status_code in (PASSING if version is None else (429,))
            if not again or attempt == ATTEMPTS or (wait or 0.0) > LONGEST_WAIT:
                raise read_refusal(response.status_code, response.content, wait)
            await sleep(FIRST_WAIT * 2 ** (attempt - 1) if wait is None else wait)
        raise AssertionError("the last attempt has returned or raised")

    async def read(self, kind: type[T], method: str, path: str, **request: Any) -> T:
        """Send a request, and read its answer as this dataclass."""
        return self.parse(kind, (await self.send(method, path, **request)).content)

    def parse(self, kind: type[T], content: bytes) -> T:
        """Read an answer as this dataclass. Raises KnowledgeError for an answer that is not of this form."""
        try:
            read: T = _adapter(cast(Hashable, kind)).validate_json(content)
            return read
        except ValueError as error:
            raise KnowledgeError(
                f"KB_URL: the answer of {self.remote.url} is not one that this version of the command reads;"
                " check the address, and that the command is not older than the service"
            ) from error

    def _unreachable(self, error: httpx.TransportError) -> ServiceUnreachable:
        return ServiceUnreachable(f"KB_URL: no answer from {self.remote.url} ({explain(error)})")


def explain(error: BaseException) -> str:
    """The reason of a failed connection, as far as the system reports it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS at this port: {(getattr(cause, 'reason', None) or 'failed').replace('_', ' ').lower()}"
        if isinstance(cause, socket.gaierror):
            return "the name of the host is not known"
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused"
        cause = cause.__cause__ or cause.__context__
    return "it took too long" if isinstance(error, httpx.TimeoutException) else type(error).__name__


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _show(value: Any) -> str | list[str]:
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_seconds(text: str | None) -> float | None:
    """The seconds of Retry-After; None for a date, which the service never sends."""
    with contextlib.suppress(TypeError, ValueError):
        return max(0.0, float(cast(str, text)))
    return None
