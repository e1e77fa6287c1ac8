"""`knowledge eval` and `bench`: measure ranking quality and speed."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.execution import complete_tenant, json_option, program, read_settings, run_async
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, print_table, remark
from app.contract.vocabulary import COMMAND_LINE
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.evaluation.metrics import Variant
    from app.evaluation.report import Report
    from app.evaluation.tuning import Tuning
    from app.settings import Settings

CHECKOUT = Path(__file__).resolve().parents[2]


@program.add(
    "knowledge eval scifact cranfield --output report",
    "knowledge eval locomo/data/locomo10.json",
    "knowledge eval --tenant acme",
    "knowledge eval squad-dev --qrels qrels.sample1k.tsv --modes keyword,hybrid-score",
    name="eval",
)
def measure_quality(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            help="Folders with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR layout), folders of such folders, or"
            " locomo10.json.",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            "-t",
            metavar="SLUG",
            help="Compare other weights and fusions on the feedback of this tenant's callers.",
            autocompletion=complete_tenant,
        ),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judgements to use: a name in the folder, or a path.")
    ] = None,
    modes: Annotated[
        str,
        typer.Option(help="What to measure, separated by commas: keyword, semantic, hybrid, hybrid-rrf, hybrid-score."),
    ] = "keyword,semantic,hybrid",
    queries: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Measure N queries of each folder, always the same.")
    ] = None,
    vector_cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep vectors there for the next run.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write evaluation.md, evaluation.json and the rankings (TREC format) there."),
    ] = None,
    as_json: Annotated[
        bool, json_option("the content of evaluation.json; with --tenant {queries, judgements, …}")
    ] = False,
) -> None:
    """Measure ranking quality on judged collections, each in a temporary tenant.

    Shows nDCG@10 with its 95 % interval, recall and MRR@10 by search mode and fusion, and of BM25 by bm25s if that is
    installed; and the differences in nDCG@10 with their paired intervals. A folder of folders is one collection in
    parts, each searched in its own tenant. locomo10.json is LoCoMo's: it measures how often a search finds the turns
    of a conversation that answer a question. Several collections are also summarized: the mean, and the worst
    difference from the better leg. With --tenant instead of DIR, compares other weights and fusions on that tenant's
    own queries, which it must keep (setting keep_query_text). This changes nothing in the tenant.
    """
    from app.composition.services import open_services
    from app.evaluation.collection import read_path
    from app.evaluation.report import evaluate_collections

    if tenant is not None:
        if folders:
            raise typer.BadParameter("give either folders or a tenant", param_hint="--tenant")
        _measure_tenant(tenant, as_json)
        return
    if not folders:
        raise typer.BadParameter("name a folder, or a tenant with --tenant", param_hint="DIR")
    variants = choose_variants(modes)
    settings = read_settings()
    collections = [read_path(folder, qrels).sample(queries) for folder in folders]
    report = run_async(
        evaluate_collections(
            open_services(settings), collections, show_progress, variants=variants, vector_cache=vector_cache
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
            raise ConfigurationError("--output", f"cannot write to {output}: {error.strerror}") from None


def _measure_tenant(slug: str, as_json: bool) -> None:
    tuning = run_async(_tune(read_settings(), slug))
    if as_json:
        print_json(tuning.as_json())
        return
    from app.evaluation.tuning import HEADINGS, rows_of

    print_table(HEADINGS, rows_of(tuning), right=HEADINGS[1:])
    remark(f"{tuning.queries} queries, {tuning.judgements} judged hits; {tuning.remark}")


async def _tune(settings: Settings, slug: str) -> Tuning:
    from app.composition.services import open_services
    from app.evaluation.tuning import tune

    async with open_services(settings) as services:
        return await tune(services, slug, show_progress, reader=COMMAND_LINE)


def choose_variants(modes: str) -> list[Variant]:
    """Parse a comma-separated list of variants, in the report's order. Raises typer.BadParameter."""
    from app.evaluation.metrics import VARIANTS

    known = {v.label.replace(" ", "-"): v for v in VARIANTS}
    chosen: set[Variant] = set()
    for name in modes.replace(" ", "").split(","):
        matching = {v for label, v in known.items() if name in (label, v.mode)}
        if not matching:
            raise typer.BadParameter(f"{name!r} must be one of hybrid, {', '.join(known)}", param_hint="--modes")
        chosen |= matching
    return [v for v in VARIANTS if v in chosen]


def print_report(report: Report) -> None:
    """Print the tables of an evaluation: its collections, groups of queries, and the summary of several."""
    from app.evaluation.report import HEADINGS, SUMMARY_HEADINGS, make_group_rows, make_rows, make_summary_rows

    print_table(HEADINGS, make_rows(report.evaluations), right=HEADINGS[2:])
    for evaluation in report.evaluations:
        for reason, count in evaluation.collection.ignored.items():
            remark(f"{evaluation.collection.name}: {count:,} questions are not measured: {reason}")
        if evaluation.groups:
            headings, rows = make_group_rows(evaluation)
            typer.echo()
            print_table(headings, rows, right=headings[1:])
    if report.summary:
        typer.echo()
        print_table(SUMMARY_HEADINGS, make_summary_rows(report.summary), right=SUMMARY_HEADINGS[1:4])


@program.add("knowledge bench", name="bench")
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
