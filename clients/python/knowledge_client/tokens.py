"""The address of the service, the source of the bearer token, and the access of an admin."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

from knowledge_client.errors import KnowledgeError

TokenSource: TypeAlias = str | Callable[[], str]
"""A token, or a function that returns one: called at the first request, and again when the service answers 401."""

AsyncTokenSource: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""The same, or a coroutine function."""

Access: TypeAlias = Literal["all"]
"""What an admin of a tenant asks to see: all of it, which the audit trail records."""

ACCESS = "X-KB-Access"

T = TypeVar("T")


def find_url(given: str | None) -> str:
    """The address, by default that of the variable KB_URL. Raises ValueError without one."""
    url = given or os.environ.get("KB_URL", "").strip()
    if not url:
        raise ValueError("url: is required, unless KB_URL is set")
    return url.rstrip("/")


def find_token(given: T | None) -> T | str:
    """The token or its source, by default the variable KB_TOKEN. Raises ValueError without one."""
    token = given or os.environ.get("KB_TOKEN", "").strip()
    if not token:
        raise ValueError("token: is required, unless KB_TOKEN is set")
    return token


def authorize(token: str) -> str:
    """The header with a token. Raises KnowledgeError for a text that no header can have, without showing it."""
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise KnowledgeError("token: must be ASCII characters without blanks")
    return f"Bearer {token}"


def find_headers(access: Access | None, *, variable: bool) -> dict[str, str]:
    """The header that asks for this access, by default that of the `variable` KB_ACCESS. Raises ValueError."""
    chosen = access or (os.environ.get("KB_ACCESS", "").strip() if variable else "")
    if chosen not in ("", "all"):
        raise ValueError("access: must be all, and KB_ACCESS all or not set")
    return {ACCESS: chosen} if chosen else {}
