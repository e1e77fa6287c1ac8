"""Who is measured: each module here with an `enter` is one contender, found by itself; see `contender.py`."""

import importlib
import pkgutil
from collections.abc import Iterator

from benchmarks.contender import Enter


def find_contenders() -> Iterator[tuple[str, Enter]]:
    """Every contender's module name and its `enter`, in the order of the names."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        yield module.name, importlib.import_module(f"{__name__}.{module.name}").enter
