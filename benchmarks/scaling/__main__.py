"""`python -m benchmarks.scaling`: measure all kinds of servers, or moves of shards; or calculate larger numbers."""

import argparse

from app.cli.execution import run_async
from benchmarks.scaling.growth import Measured, Node, Use, calculate, render
from benchmarks.scaling.measures import measure
from benchmarks.scaling.moves import measure_moves, render_moves
from benchmarks.scaling.servers import serving
from benchmarks.texts import read_texts

TENANTS = (1_000, 10_000, 100_000, 1_000_000)


async def run(options: argparse.Namespace) -> None:
    """Fill, measure, and print a table."""
    if options.moves:
        print(render_moves(await measure_moves(options.moves)))
        return
    texts = read_texts(options.entries)
    async with serving(texts, options.tenants, options.entries) as served:
        figures = await measure(served, texts, options.rounds, options.searches, options.seconds)
    rows = {kind: found.summarize() for kind, found in figures.items()}
    print("| | " + " | ".join(next(iter(rows.values()))) + " |")
    print("|---|" + "---:|" * 6)
    for kind, row in rows.items():
        print(f"| {kind} | " + " | ".join(f"{value:.1f}" for value in row.values()) + " |")


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--paper", action="store_true", help="only calculate")
    parser.add_argument(
        "--moves", type=int, metavar="REQUESTS", help="move shards of a cluster until each kind of request met so many"
    )
    parser.add_argument("--tenants", type=int, default=12)
    parser.add_argument("--entries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--searches", type=int, default=100, help="single searches in a round")
    parser.add_argument("--seconds", type=float, default=3.0, help="of eight callers in a round")
    options = parser.parse_args()
    if options.paper:
        print(render([calculate(tenants, Measured(), Node(), Use()) for tenants in TENANTS]))
    else:
        run_async(run(options))


if __name__ == "__main__":
    main()
