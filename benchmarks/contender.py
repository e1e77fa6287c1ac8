"""A participant in the speed benchmark.

A module in `contenders/` has an asynchronous context manager `enter(race)` that sets its contender up for
the tenant of the race and yields a `Contender`. It raises `Absent` when something that it needs is not
installed.
"""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from app.composition.database import DatabaseAddresses
from app.composition.services import Services
from app.embedded import EmbeddedAddress
from app.embeddings.provider import Vector
from app.evaluation.evaluation import ShowProgress
from app.settings import Settings
from benchmarks.corpus.dataset import MeasuredTenant
from benchmarks.corpus.population import Population
from benchmarks.corpus.stock import Stock

SERVICE, FLOOR = "service over HTTP", "bare SQL (floor)"
"""The contenders to which the benchmark's targets apply."""

Workload = Literal["cached", "distinct"]
"""`cached`: a few queries are repeated, and their embeddings are known; `distinct`: each query is new."""


class Absent(Exception):
    """A contender cannot take part here; the text names what it needs."""


def import_peer(module: str, package: str) -> Any:
    """Import a module of a package from the extra `bench`. Raises Absent.

    Its types are not followed, because type checks must also pass where the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Absent(f"the package {package} is not installed") from None


@dataclass(frozen=True, slots=True)
class Question:
    """A query, with its vector if the workload is `cached`."""

    text: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """What each contender receives: the same data, settings and database.

    The rest is for contenders that keep a copy of the entries: `server` for a database of their own next to the
    service's, `stock` with the entries of `tenants`, of which those in `measured` are searched, `kept` as the folder
    for copies, and `progress` to show how one is built.
    """

    dataset: MeasuredTenant
    settings: Settings
    addresses: DatabaseAddresses
    services: Services
    server: EmbeddedAddress
    stock: Stock
    tenants: Sequence[Population]
    measured: Sequence[Population]
    kept: Path
    progress: ShowProgress


Nearest: TypeAlias = Callable[[Question, bool], Awaitable[Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to answer a query.

    Attributes:
        name: its name in the table.
        search: answers a query with up to ten hits; returns their number.
        workloads: what it supports; a contender without an embedding model supports `cached` only.
        is_floor: whether the others are compared with it as the floor.
        is_peer: whether it is third-party software that the others are compared with.
        memory: returns the resident bytes of its process, if it has its own.
        nearest: returns the numbers of the ten nearest entries of a semantic-only search, best first; with True,
            only entries with the tag RARE. None for a contender whose recall is not measured.
        entries: the number of entries in its own store; None if it uses the service's.
        setup: how it is set up and how it separates tenants, for the report.
    """

    name: str
    search: Callable[[Question], Awaitable[int]]
    workloads: tuple[Workload, ...] = ("cached", "distinct")
    is_floor: bool = False
    is_peer: bool = False
    memory: Callable[[], int] | None = None
    nearest: Nearest | None = None
    entries: int | None = None
    setup: str = ""


Enter: TypeAlias = Callable[[Race], AbstractAsyncContextManager[Contender]]
