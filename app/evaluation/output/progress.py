"""Telling how far long work is, whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

ShowProgress: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Opens a step with a label and a total; what it yields is called with how much is done so far."""


@contextmanager
def hide_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A step that nobody sees."""
    yield lambda done: None
