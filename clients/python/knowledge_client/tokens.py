"""Where the bearer token comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

TokenSource: TypeAlias = str | Callable[[], str]
"""A token, or what gives one: asked at the first request, and again when the service answers 401."""

AsyncTokenSource: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""The same, where it may also be a coroutine function."""
