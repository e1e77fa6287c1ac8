"""`knowledge eval` and `knowledge bench`: how well and how fast the service searches."""

from __future__ import annotations

import asyncio
import importlib.util
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console

from app.errors import KnowledgeError
from app.evaluation.collection import Collection, read_collection
from app.evaluation.evaluation import VARIANTS, Variant
from app.evaluation.progress import ConsoleProgress
from app.evaluation.report import Report
from app.evaluation.session import evaluate_collections
from app.evaluation.table import make_table
from app.settings import load_settings

TERMINATED = 128 + signal.SIGTERM


def register(app: typer.Typer) -> None:
    """Add the commands `eval` and `bench`."""
    app.command("eval")(measure_quality)
    app.command("bench")(measure_speed)


def measure_quality(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folders with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR layout)."
        ),
    ],
    qrels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Judgements to use, by its name in the folder or a path of its own."
        ),
    ] = None,
    modes: Annotated[
        str,
        typer.Option(
            help="Searches to measure, comma-separated: keyword, semantic, hybrid, hybrid-rrf, hybrid-score."
        ),
    ] = "keyword,semantic,hybrid",
    queries: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Measure N queries of each, always the same ones.")
    ] = None,
    vector_cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep vectors here between runs; searches are as without it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write evaluation.md and evaluation.json there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure ranking quality on judged collections, each in a tenant of its own that is removed after.

    Prints nDCG@10, recall@100 and MRR@10 by search mode and fusion, with BM25 by bm25s beside them if that is
    installed.
    """
    try:
        variants = choose_variants(modes)
        collections = [read_collection(folder, qrels).sample(queries) for folder in folders]
        report = asyncio.run(_measure(collections, variants, vector_cache))
        if output is not None:
            report.write(output)
    except (KnowledgeError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except asyncio.CancelledError:
        raise typer.Exit(TERMINATED) from None
    if as_json:
        typer.echo(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2))
    else:
        print_report(report)


def measure_speed() -> None:
    """Measure how fast the service searches; the program is part of the source tree."""
    if importlib.util.find_spec("benchmarks") is None:
        typer.echo(
            "the benchmark program is part of the source tree: run `make bench` in a checkout", err=True
        )
        raise typer.Exit(1)
    sys.argv = sys.argv[:1]
    runpy.run_module("benchmarks.speed", run_name="__main__")


def choose_variants(modes: str) -> list[Variant]:
    """The variants that a comma-separated list names, in the report's order. Raises typer.BadParameter."""
    known = {v.label.replace(" ", "-"): v for v in VARIANTS}
    chosen: set[Variant] = set()
    for name in modes.replace(" ", "").split(","):
        matching = {v for label, v in known.items() if name in (label, v.mode)}
        if not matching:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(known)}, hybrid", param_hint="--modes")
        chosen |= matching
    return [v for v in VARIANTS if v in chosen]


def print_report(report: Report) -> None:
    """Print the table, at its full width where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(make_table(report))


async def _measure(
    collections: Sequence[Collection], variants: Sequence[Variant], vector_cache: Path | None
) -> Report:
    settings = load_settings(identity_required=False)
    task = asyncio.current_task()
    assert task is not None
    # So that the tenant is removed also when the process is asked to end.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    progress = ConsoleProgress(Console(stderr=True))
    return await evaluate_collections(
        settings, collections, progress, variants=variants, vector_cache=vector_cache
    )
