"""Background work that does not belong to a request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

Result = TypeVar("Result")


def start_background(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Start work that is independent of requests: its log lines name no request, not even the one that started it."""
    # Otherwise a task keeps a copy of its creator's context variables, such as the id and the span of a request.
    return asyncio.create_task(work, context=Context())
