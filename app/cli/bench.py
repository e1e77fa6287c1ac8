"""`knowledge bench`: measure the speed of searches."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import typer

from app.cli.execution import examples
from app.errors import ConfigurationError

CHECKOUT = Path(__file__).resolve().parents[2]


def register(app: typer.Typer) -> None:
    """Add the command `bench`."""
    app.command("bench", short_help="Measure the speed of searches.", epilog=examples("knowledge bench"))(measure_speed)


def measure_speed() -> None:
    """Measure the speed of searches. The program is part of the source tree."""
    if not (CHECKOUT / "benchmarks" / "speed.py").is_file():
        raise ConfigurationError(
            None, "the benchmark program is part of the source tree: run `make bench` in a checkout"
        )
    # An installed command's search path does not have the checkout's folder.
    sys.path.insert(0, str(CHECKOUT))
    sys.argv = ["knowledge bench"]
    runpy.run_module("benchmarks.speed", run_name="__main__")
