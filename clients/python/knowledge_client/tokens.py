"""The source of the bearer token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

TokenSource: TypeAlias = str | Callable[[], str]
"""A token, or a function that returns one: called at the first request, and again when the service answers 401."""

AsyncTokenSource: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""The same, or a coroutine function."""
