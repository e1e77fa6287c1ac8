"""Descriptions of the headers of responses, for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Headers = dict[str, Mapping[str, Any]]


def _describe(name: str, description: str, example: object, **schema: object) -> Headers:
    return {name: {"description": description, "schema": {"type": "string"} | schema, "example": example}}


ETAG = _describe("ETag", "The version of the item, for If-Match.", '"1"')
LOCATION = _describe(
    "Location",
    "The path of what the request stored.",
    "/knowledge/entries/0199c5a2-7b1e-7d3f-8a41-6c0f5e2d9b17",
    format="uri-reference",
)
RETRY_AFTER = _describe("Retry-After", "Seconds to wait before trying again.", 1, type="integer", minimum=1)
WWW_AUTHENTICATE = _describe("WWW-Authenticate", "Always Bearer.", "Bearer")
ALLOW = _describe("Allow", "The methods of the path, separated by commas.", "GET, POST")
REQUEST_ID = _describe(
    "X-Request-ID",
    "The id of the request in the log: the one that the request named, or a new one.",
    "5f2b6c1e8d3a4f70",
)

ACCESS = "X-KB-Access"
"""The header with which an admin of a tenant asks to see all of it: `all`."""
