"""Work in the background that belongs to no request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

Result = TypeVar("Result")


def start_background(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Begin work that is done for whoever comes: what it logs names no request, not even the one that began it."""
    # Otherwise a task has a copy of its maker's variables for good, such as the id and the span of a request.
    return asyncio.create_task(work, context=Context())
