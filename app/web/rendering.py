"""Render responses: services' dataclasses as JSON, pages of lists, attachments, ETags and headers."""

import csv
import hashlib
import io
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any
from urllib.parse import quote

import orjson
from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.staticfiles import StaticFiles

from app.contract.administration import DayUsage
from app.contract.fields import Page
from app.db.queries.assets import AssetContent
from app.documents.formats import FORMATS
from app.errors import PreconditionFailed
from app.knowledge.paging import MAX_PAGE

Headers = dict[str, Mapping[str, Any]]


def _describe(name: str, description: str, example: object, **schema: object) -> Headers:
    return {name: {"description": description, "schema": {"type": "string"} | schema, "example": example}}


ETAG = _describe("ETag", "The version of the item, for If-Match, and of this answer, for If-None-Match.", '"1"')
IF_NONE_MATCH: Mapping[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "ETags of answers that the caller has, separated by commas, or *; 304 if one still holds.",
}
"""The parameter of reads with an ETag, as OpenAPI describes it."""
LOCATION = _describe(
    "Location",
    "The path of what the request stored.",
    "/knowledge/entries/0199c5a2-7b1e-7d3f-8a41-6c0f5e2d9b17",
    format="uri-reference",
)
UPLOAD_LIMIT = _describe("Upload-Limit", "The bytes of the largest file that is accepted.", "max-size=52428800")
RETRY_AFTER = _describe("Retry-After", "Seconds to wait before trying again.", 1, type="integer", minimum=1)
WWW_AUTHENTICATE = _describe("WWW-Authenticate", "Always Bearer.", "Bearer")
REQUEST_ID = _describe(
    "X-Request-ID",
    "The id of the request in the log: the one that the request named, or a new one.",
    "5f2b6c1e8d3a4f70",
)

ACCESS = "X-KB-Access"
"""The header with which an admin of a tenant asks to see all of it: `all`."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON of dataclasses, UUIDs and times; the response models describe the same shapes for OpenAPI."""
    return Response(orjson.dumps(content), status, dict(headers or {}), "application/json")


USAGE_COLUMNS = tuple(field.name for field in fields(DayUsage))


def usage_table(days: Sequence[DayUsage], filename: str | None = None) -> Response:
    """CSV of what a tenant used by day; with a name, a browser stores it."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(USAGE_COLUMNS)
    table.writerows([getattr(day, name) for name in USAGE_COLUMNS] for day in days)
    headers = (
        {}
        if filename is None
        else {"Content-Disposition": f"attachment; filename={filename}", "Content-Security-Policy": _SANDBOX}
    )
    return Response(text.getvalue(), headers=headers, media_type="text/csv; charset=utf-8")


RENDERED = frozenset({"text/html", "image/svg+xml"})
"""Types in which a browser would run scripts."""

SAFE_TYPES = frozenset(item.media_type for item in FORMATS) - RENDERED
"""Types under which bytes are returned; all others are returned as application/octet-stream."""


_SANDBOX = "sandbox; default-src 'none'; frame-ancestors 'none'"


def attachment(content: AssetContent, parts: AsyncIterator[bytes]) -> Response:
    """The response with the bytes. The middleware adds `nosniff`."""
    safe = content.media_type in SAFE_TYPES
    headers = {
        "Content-Type": content.media_type if safe else "application/octet-stream",
        "Content-Length": str(content.byte_size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(content.name, safe='')}",
        "Content-Security-Policy": _SANDBOX,
        "ETag": f'"{content.sha256.hex()}"',
        "Accept-Ranges": "none",
    }
    return StreamingResponse(parts, headers=headers)


IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="The ETag that was read, to avoid overwriting other changes; several separated by commas, or *.",
    ),
]
_VERSION = re.compile(r"[0-9]{1,18}")
_ETAG = re.compile(r'"([0-9]{1,18})(?:-[0-9a-f]{16})?"')


def etag(version: int) -> str:
    """The ETag of an item that changes with its version only."""
    return f'"{version}"'


def versioned_response(
    content: Any, version: int, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON of an item that the service changes too, as an entry's `embedding_status`, without a new version.

    Its ETag has the version, which If-Match compares, and a hash of the answer, for If-None-Match.
    """
    body = orjson.dumps(content)
    tag = f'"{version}-{hashlib.blake2b(body, digest_size=8).hexdigest()}"'
    return Response(body, status, {"ETag": tag, **(headers or {})}, "application/json")


def has_current(request: Request, tag: str) -> bool:
    """Whether If-None-Match names the ETag, by weak comparison (RFC 9110, section 13.1.2)."""
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    return not known.isdisjoint((tag, "*"))


def spare_known(request: Request, response: Response) -> Response:
    """The response to a read, or 304 without a body if the caller has it already."""
    tag = response.headers.get("etag")
    if request.method != "GET" or response.status_code != 200 or tag is None or not has_current(request, tag):
        return response
    return Response(status_code=304, headers={"ETag": tag})


def read_versions(if_match: str | None) -> frozenset[int] | None:
    """The versions that If-Match names; `*` only requires that the item exists. Weak ETags never match.

    Raises PreconditionFailed if it names none.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    if _VERSION.fullmatch(if_match.strip()):  # without its quotes
        return frozenset({int(if_match)})
    named = (_ETAG.fullmatch(tag.strip()) for tag in if_match.split(","))
    versions = frozenset(int(tag[1]) for tag in named if tag)
    if not versions:
        raise PreconditionFailed("If-Match is not an ETag of this item")
    return versions


PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE)]
PAGE_SIZE = 50
"""Items on a page where a request names no limit."""

PageCursor = Annotated[str, Query(max_length=1_000)]


SORT_TEXT = (
    "The order; `-` is descending. {} are compared without regard to case, by their first 100 characters, and equal"
    " values by id. Send the same `sort` with a cursor. An item whose value changes between two pages can move."
)
"""Describes the parameter `sort` of a list that can be ordered by a text."""


def page_response(page: Page[Any]) -> Response:
    """A page of a list."""
    return json_response({"items": list(page.items), "next_cursor": page.next_cursor})


class ReleasedFiles(StaticFiles):
    """Files that change only with a release; browsers may cache them for a day."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """One file."""
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "public, max-age=86400"
        return response
