"""The tables of the figures, and the comparison with those of an earlier run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from app.evaluation.metrics import compare_paired, estimate_means
from benchmarks.documents.measurement import Figures
from benchmarks.documents.scoring import METRICS

HEADINGS = ("file", "layout", "questions", *METRICS)
COMPARED = ("collection", "questions", "metric", "before", "after", "difference")

Scores = Mapping[str, Sequence[Mapping[str, float]]]


def make_rows(figures: Figures) -> list[tuple[str, ...]]:
    """A row for each measured file, and one for all questions with 95 % intervals."""
    rows: list[tuple[str, ...]] = []
    for file in figures.files:
        if scores := figures.scores.get(file.name):
            means = (f"{fmean(score[metric] for score in scores):.2f}" for metric in METRICS)
            rows.append((file.name, file.layout, str(len(scores)), *means))
    every = [score for scores in figures.scores.values() for score in scores]
    if every:
        estimates = estimate_means([[score[metric] for metric in METRICS] for score in every])
        rows.append(("all", "", str(len(every)), *(f"{e.mean:.3f} [{e.low:.3f}, {e.high:.3f}]" for e in estimates)))
    return rows


def make_comparison(collection: str, before: Scores, after: Scores) -> list[tuple[str, ...]]:
    """A row for each metric, over the questions that both runs asked; the intervals are paired."""
    both = [name for name in after if len(before.get(name, ())) == len(after[name])]
    earlier = [score for name in both for score in before[name]]
    later = [score for name in both for score in after[name]]
    rows: list[tuple[str, ...]] = []
    for metric in METRICS if later else ():
        ours, theirs = [score[metric] for score in later], [score[metric] for score in earlier]
        interval = compare_paired(ours, theirs)
        rows.append((
            collection, str(len(later)), metric, f"{fmean(theirs):.3f}", f"{fmean(ours):.3f}",
            f"{interval.difference:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]",
        ))  # fmt: skip
    return rows


def write_figures(path: Path, measured: Mapping[str, Figures]) -> None:
    """Keep the metrics of every question as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: asdict(figures) for name, figures in measured.items()}
    for figures in kept.values():
        del figures["files"]
    path.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))


def read_scores(path: Path) -> dict[str, Scores]:
    """The metrics that `write_figures` kept, by collection."""
    kept: dict[str, Any] = orjson.loads(path.read_bytes())
    return {name: collection["scores"] for name, collection in kept.items()}
