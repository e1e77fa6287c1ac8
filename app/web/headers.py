"""Descriptions of the headers of responses, for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Headers = dict[str, Mapping[str, Any]]

ETAG: Headers = {
    "ETag": {
        "description": "The version of the item, for If-Match.",
        "schema": {"type": "string"},
        "example": '"1"',
    }
}
LOCATION: Headers = {
    "Location": {
        "description": "The path of what the request stored.",
        "schema": {"type": "string", "format": "uri-reference"},
        "example": "/knowledge/entries/0199c5a2-7b1e-7d3f-8a41-6c0f5e2d9b17",
    }
}
RETRY_AFTER: Headers = {
    "Retry-After": {
        "description": "Seconds to wait before trying again.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 1,
    }
}
WWW_AUTHENTICATE: Headers = {
    "WWW-Authenticate": {
        "description": "Always Bearer.",
        "schema": {"type": "string"},
        "example": "Bearer",
    }
}
ALLOW: Headers = {
    "Allow": {
        "description": "The methods of the path, separated by commas.",
        "schema": {"type": "string"},
        "example": "GET, POST",
    }
}
REQUEST_ID: Headers = {
    "X-Request-ID": {
        "description": "The id of the request in the log: the one that the request named, or a new one.",
        "schema": {"type": "string"},
        "example": "5f2b6c1e8d3a4f70",
    }
}
