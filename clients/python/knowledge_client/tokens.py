"""The address of the service, and the source of the bearer token."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

TokenSource: TypeAlias = str | Callable[[], str]
"""A token, or a function that returns one: called at the first request, and again when the service answers 401."""

AsyncTokenSource: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""The same, or a coroutine function."""

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
