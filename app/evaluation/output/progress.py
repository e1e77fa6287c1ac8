"""The interface for progress of long operations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

ShowProgress: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Opens a step with a label and a total; yields a function to call with the amount done so far."""
