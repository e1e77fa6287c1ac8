"""The report of evaluations, in Markdown and JSON."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from app.embeddings.provider import EmbeddingModel
from app.evaluation.bootstrap import RESAMPLES, SEED, Interval
from app.evaluation.evaluation import DEPTH, Evaluation
from app.evaluation.metrics import METRICS, Scores
from app.knowledge.search.plan import SCORE_WEIGHTS, SearchDefaults

_PACKAGES = ("knowledge-search", "onnxruntime", "tokenizers", "numpy", "bm25s", "pystemmer")
HEADINGS = ("collection", "search", "nDCG@10", "recall@100", "MRR@10", "nDCG − bm25s", "nDCG − better leg")


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
        }

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
            "bootstrap": {"resamples": RESAMPLES, "seed": SEED, "confidence": 0.95},
            "vectors_cached": self.vectors_cached,
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of the table: one for each search variant and one for bm25s, under HEADINGS."""
        rows: list[tuple[str, ...]] = []
        for evaluation in self.evaluations:
            name = evaluation.collection.name
            if evaluation.baseline is not None:
                rows.append((name, "bm25s", *_numbers(evaluation.baseline.scores), "", ""))
            for run in evaluation.runs:
                intervals = (describe(run.against_baseline), describe(run.against_better_leg))
                rows.append((name, run.variant.label, *_numbers(run.scores), *intervals))
        return rows

    def as_markdown(self) -> str:
        """The report as a document."""
        model = self.model
        lines = [
            "# Ranking quality",
            "",
            f"{self.made_at:%Y-%m-%d %H:%M} UTC. Model {model.provider}/{model.name}, {model.dimensions} dimensions. "
            "Differences are in mean nDCG@10, with the paired bootstrap interval in brackets "
            f"(95 %, {RESAMPLES:,} resamples); *better leg* is the better of keyword and semantic.",
            "",
            f"| {' | '.join(HEADINGS)} |",
            f"|{'---|' * len(HEADINGS)}",
            *(f"| {' | '.join(row)} |" for row in self.rows()),
            "",
            "| collection | documents | skipped (empty) | judgements | queries | judged | BM25 |",
            "|---|---|---|---|---|---|---|",
        ]
        for e in self.evaluations:
            c = e.collection
            lines.append(
                f"| {c.name} | {len(c.documents):,} | {c.skipped} | {c.qrels} | {len(c.queries):,} | {c.judged:,} "
                f"| {e.baseline.name if e.baseline else 'bm25s is not installed'} |"
            )
        lines += ["", "| setting | value |", "|---|---|"]
        lines += [f"| {name} | {_plain(value)} |" for name, value in self.settings.items()]
        lines += [
            f"| {name} | {value} |" for name, value in (_versions() | {"postgres": self.server}).items()
        ]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, stem: str = "evaluation") -> tuple[Path, Path]:
        """Write `<stem>.md` and `<stem>.json` into the folder, which is created if needed. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        markdown, json = folder / f"{stem}.md", folder / f"{stem}.json"
        markdown.write_text(self.as_markdown(), encoding="utf-8")
        json.write_bytes(orjson.dumps(self.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return markdown, json


def describe(interval: Interval | None) -> str:
    """A difference with its interval, e.g. `+0.012 [−0.003, +0.027]`; empty for None."""
    if interval is None:
        return ""
    difference, low, high = (
        f"{v:+.3f}".replace("-", "−") for v in (interval.difference, interval.low, interval.high)
    )
    return f"{difference} [{low}, {high}]"


def _numbers(scores: Scores) -> list[str]:
    return [f"{scores.means[name]:.4f}" for name in METRICS]


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)


def _evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    collection, baseline = evaluation.collection, evaluation.baseline
    return {
        "name": collection.name,
        "documents": len(collection.documents),
        "empty_documents": collection.skipped,
        "qrels": collection.qrels,
        "judged_queries": collection.judged,
        "queries": len(collection.queries),
        "seconds": {name: round(value, 2) for name, value in evaluation.seconds.items()},
        "baseline": {"name": baseline.name, **baseline.scores.means} if baseline else None,
        "runs": [
            {
                "mode": run.variant.mode,
                "fusion": run.variant.fusion,
                **run.scores.means,
                "median_ms": round(1000 * run.median_seconds, 2),
                "ndcg@10_against_bm25s": asdict(run.against_baseline) if run.against_baseline else None,
                "ndcg@10_against_better_leg": asdict(run.against_better_leg)
                if run.against_better_leg
                else None,
            }
            for run in evaluation.runs
        ],
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
