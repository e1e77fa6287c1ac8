"""Cut a sequence into runs."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def cut_runs(items: Iterable[Item], begins: Callable[[list[Item], Item], bool]) -> Iterator[list[Item]]:
    """Runs of neighbours; `begins` tells, by the run so far, whether an item begins the next one."""
    run: list[Item] = []
    for item in items:
        if run and begins(run, item):
            yield run
            run = []
        run.append(item)
    if run:
        yield run
