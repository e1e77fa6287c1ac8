"""What takes part in the speed benchmark.

A module in `contenders/` has an asynchronous context manager `enter(race)` that sets its contender up for the
tenant which the race is about, and yields a `Contender`. Raise `Absent` when something it needs is not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from app.composition.database import DatabaseAddresses
from app.composition.services import Services
from app.embeddings.provider import Vector
from app.errors import KnowledgeError
from app.evaluation.output.progress import ShowProgress
from app.settings import Settings
from benchmarks.dataset import MeasuredTenant
from benchmarks.stock import Stock

Workload = Literal["cached", "distinct"]
"""`cached`: a few queries again and again, whose embedding is known; `distinct`: each query is a new one."""


class Absent(Exception):
    """A contender that cannot take part here; the text says what it needs."""


class BenchmarkFailed(KnowledgeError):
    """A contender that should have answered did not; the text says how."""


def import_peer(module: str, package: str) -> Any:
    """A module of a package that the extra `bench` brings. Raises Absent.

    Its types are not followed: they must not matter to those who have not installed it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Absent(f"the package {package} is not installed") from None


@dataclass(frozen=True, slots=True)
class Question:
    """A query; its vector where the workload is `cached`."""

    text: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """What contenders are given: the same data, settings and database for all.

    `stock` is for those that keep a copy of the entries; `progress` shows its making.
    """

    dataset: MeasuredTenant
    settings: Settings
    addresses: DatabaseAddresses
    services: Services
    stock: Stock
    progress: ShowProgress


Nearest: TypeAlias = Callable[[Question, bool], Awaitable[Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to answer a question.

    Attributes:
        name: what the table calls it.
        search: answers a question with ten hits; returns how many there were.
        workloads: what it can be asked; one without an embedding model of its own takes `cached` only.
        is_floor: whether the others are compared with it.
        is_peer: whether it is other people's software, with which the others are compared.
        memory: resident bytes of its process, where it has one of its own.
        nearest: the numbers of the ten entries nearest by meaning alone, best first; with True only of those that
            have the tag RARE. None for one that is not asked.
        entries: how many entries its store holds, where that is not the service's.
    """

    name: str
    search: Callable[[Question], Awaitable[int]]
    workloads: tuple[Workload, ...] = ("cached", "distinct")
    is_floor: bool = False
    is_peer: bool = False
    memory: Callable[[], int] | None = None
    nearest: Nearest | None = None
    entries: int | None = None


Enter: TypeAlias = Callable[[Race], AbstractAsyncContextManager[Contender]]
