"""`knowledge eval` and `knowledge bench`: how well and how fast the service searches."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.cli.execution import read_settings, run_async
from app.cli.options import JsonOption, examples
from app.cli.terminal import print_json, show_progress
from app.errors import ConfigurationError
from app.evaluation.collection import read_collection
from app.evaluation.evaluation import VARIANTS, Variant
from app.evaluation.report import Report
from app.evaluation.session import evaluate_collections
from app.evaluation.table import make_table

CHECKOUT = Path(__file__).resolve().parents[2]
PIPED_WIDTH = 140


def register(app: typer.Typer) -> None:
    """Add the commands `eval` and `bench`."""
    app.command(
        "eval",
        epilog=examples(
            "knowledge eval scifact cranfield --output report",
            "knowledge eval squad-dev --qrels qrels.sample1k.tsv --modes keyword,hybrid-score",
        ),
    )(measure_quality)
    app.command("bench")(measure_speed)


def measure_quality(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR", help="Folders with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR layout)."
        ),
    ],
    qrels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judgements to use, by name in the folder or by path."),
    ] = None,
    modes: Annotated[
        str,
        typer.Option(
            help="What to measure, comma-separated: keyword, semantic, hybrid, hybrid-rrf, hybrid-score."
        ),
    ] = "keyword,semantic,hybrid",
    queries: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Measure N queries of each folder, always the same ones."),
    ] = None,
    vector_cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep vectors there, so that the next run need not make them again."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write evaluation.md and evaluation.json there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure ranking quality on judged collections, each in a tenant of its own that is removed after.

    Shows nDCG@10, recall@100 and MRR@10 by search mode and fusion, and BM25 by bm25s beside them if that is
    installed.
    """
    variants = choose_variants(modes)
    settings = read_settings()
    collections = [read_collection(folder, qrels).sample(queries) for folder in folders]
    report = run_async(
        evaluate_collections(
            settings, collections, show_progress, variants=variants, vector_cache=vector_cache
        )
    )
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report)
    if output is not None:
        try:
            report.write(output)
        except OSError as error:
            raise ConfigurationError(f"--output: cannot write to {output}: {error.strerror}") from None


def measure_speed() -> None:
    """Measure how fast the service searches; the program is part of the source tree."""
    if not (CHECKOUT / "benchmarks" / "speed.py").is_file():
        raise ConfigurationError(
            "the benchmark program is part of the source tree: run `make bench` in a checkout"
        )
    # An installed command's search path does not have the checkout's folder.
    sys.path.insert(0, str(CHECKOUT))
    sys.argv = ["knowledge bench"]
    runpy.run_module("benchmarks.speed", run_name="__main__")


def choose_variants(modes: str) -> list[Variant]:
    """The variants that a comma-separated list names, in the report's order. Raises typer.BadParameter."""
    known = {v.label.replace(" ", "-"): v for v in VARIANTS}
    chosen: set[Variant] = set()
    for name in modes.replace(" ", "").split(","):
        matching = {v for label, v in known.items() if name in (label, v.mode)}
        if not matching:
            raise typer.BadParameter(f"{name!r} is none of hybrid, {', '.join(known)}", param_hint="--modes")
        chosen |= matching
    return [v for v in VARIANTS if v in chosen]


def print_report(report: Report) -> None:
    """Print the table, at its full width where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    console.print(make_table(report))
