"""The tables of ranking quality for the page of figures, from a report of `make eval`."""

from app.evaluation.evaluation import Evaluation
from app.evaluation.metrics import Comparison, Run
from app.evaluation.report import Report, describe, format_table

QUALITY, LANGUAGES = "quality-readme.md", "languages.md"
"""Files with the table of collections, and with that of languages."""

TITLES = {
    "scifact": "SciFact, {} claims",
    "cranfield": "Cranfield, {} questions",
    "xquad-de": "XQuAD German, {} questions",
    "squad-dev": "SQuAD dev, {} questions",
    "german-english": "German and English in one tenant, {} questions",
    "multilingual": "fifteen languages, {} questions",
    "help-desk": "help desk, {} questions in other words",
}
LANGUAGE_NAMES = {
    "ar": "Arabic", "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "fr": "French", "he": "Hebrew",
    "hi": "Hindi", "ja": "Japanese", "ko": "Korean", "ru": "Russian", "th": "Thai", "tr": "Turkish",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def make_quality_table(report: Report) -> str:
    """A row for each collection: nDCG@10 of each search, and each fusion's difference from the better leg."""
    first = report.evaluations[0]
    headings = ("collection", *_columns(first))
    rows = [
        (TITLES[e.collection.name].format(f"{len(e.collection.queries):,}"), *_cells(e)) for e in report.evaluations
    ]
    return "\n".join(format_table(headings, rows)) + "\n"


def make_language_table(evaluation: Evaluation) -> str:
    """A row for each language: the share of questions with a hit of the keyword leg, and nDCG@10 of each search."""
    rows = []
    for group in evaluation.groups:
        keyword = next(run for run in group.runs if run.variant.mode == "keyword")
        answered = f"{keyword.estimates['answered'].mean:.0%}"
        figures = [f"{mean:.3f}" for mean in _means(group)]
        rows.append((LANGUAGE_NAMES[group.name], str(group.queries), answered, *figures))
    headings = ("language", "questions", "with a keyword hit", *_columns(evaluation))
    return "\n".join(format_table(headings, sorted(rows))) + "\n"


def _columns(found: Comparison) -> list[str]:
    names = [f"hybrid `{run.variant.fusion}`" if run.variant.fusion else run.variant.label for run in found.runs]
    return ["bm25s", *names] if found.baseline is not None else names


def _means(found: Comparison) -> list[float]:
    means = [run.estimates["ndcg@10"].mean for run in found.runs]
    return [found.baseline.estimates["ndcg@10"].mean, *means] if found.baseline is not None else means


def _cells(found: Comparison) -> list[str]:
    runs: list[Run | None] = [*found.runs]
    if found.baseline is not None:
        runs.insert(0, None)
    cells = []
    for mean, run in zip(_means(found), runs, strict=True):
        difference = describe(run.against_better_leg) if run is not None and run.variant.fusion else ""
        cells.append(f"{mean:.3f} {difference[difference.index('[') :]}" if difference else f"{mean:.3f}")
    return cells
