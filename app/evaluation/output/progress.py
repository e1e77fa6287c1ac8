"""The interface for progress of long operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

ShowProgress: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Opens a step with a label and a total; yields a function to call with the amount done so far."""


@contextmanager
def hide_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show no progress."""
    yield lambda done: None
