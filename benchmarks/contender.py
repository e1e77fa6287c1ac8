"""What a contender is.

To add one, put a module into `contenders/` with an async context manager `enter(race)` that builds or connects
to whatever it needs and yields a `Contender`. Raise `Absent` when something it needs is not installed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from app.bootstrap import DatabaseAddresses
from app.composition import Services
from app.embeddings.provider import Vector
from app.errors import KnowledgeError
from app.settings import Settings
from benchmarks.dataset import Dataset

Workload = Literal["cached", "distinct"]
"""`cached`: a few queries again and again, whose embedding is known; `distinct`: each query is a new one."""


class Absent(Exception):
    """A contender that cannot take part here; the text says what it needs."""


class BenchmarkFailed(KnowledgeError):
    """A contender that should have answered did not; the text says how."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query; its vector where the workload is `cached`."""

    text: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """What contenders are given: the same data, settings and database for all."""

    dataset: Dataset
    settings: Settings
    addresses: DatabaseAddresses
    services: Services


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to answer a question.

    Attributes:
        name: what the table calls it.
        search: answers a question with ten hits; returns how many there were.
        workloads: what it can be asked; one without an embedding model of its own takes `cached` only.
        is_floor: whether the others are compared with it.
        memory: resident bytes of its process, where it has one of its own.
    """

    name: str
    search: Callable[[Question], Awaitable[int]]
    workloads: tuple[Workload, ...] = ("cached", "distinct")
    is_floor: bool = False
    memory: Callable[[], int] | None = None


Enter: TypeAlias = Callable[[Race], AbstractAsyncContextManager[Contender]]
