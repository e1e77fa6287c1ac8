"""The contents of an evaluation's report."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.cli.eval import print_report
from app.embeddings.models import resolve_model
from app.evaluation.bootstrap import Interval
from app.evaluation.evaluation import Baseline, Evaluation, Run, Variant
from app.evaluation.metrics import Scores
from app.evaluation.output.report import Report, describe
from app.knowledge.search.plan import SearchDefaults
from tests.evaluation.samples import make_tiny_collection


@pytest.fixture
def report() -> Report:
    collection = make_tiny_collection()
    keyword = Run(
        Variant("keyword"),
        Scores([0.5, 0.7, 0.0], [1.0, 1.0, 0.0], [0.5, 1.0, 0.0]),
        median_seconds=0.0042,
        against_baseline=Interval(-0.0125, -0.03, 0.01),
    )
    hybrid = Run(
        Variant("hybrid", "rrf"),
        Scores([0.9, 0.9, 0.9], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        median_seconds=0.01,
        against_baseline=Interval(0.2, 0.1, 0.3),
        against_better_leg=Interval(0.5, 0.4, 0.6),
    )
    baseline = Baseline("bm25s", Scores([0.6, 0.6, 0.0], [1.0, 1.0, 0.0], [0.5, 1.0, 0.0]))
    return Report(
        [Evaluation(collection, [keyword, hybrid], baseline, {"fill": 1.5})],
        resolve_model("mock"),
        SearchDefaults(),
        server="18.6",
        made_at=datetime(2025, 3, 1, 12, 30, tzinfo=UTC),
    )


def test_interval_is_written_with_plus_and_minus() -> None:
    assert describe(Interval(-0.0125, -0.03, 0.01)) == "−0.013 [−0.030, +0.010]"
    assert describe(None) == ""


def test_table_has_a_row_for_each_variant_and_the_baseline(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [row[:5] for row in report.rows()] == [
        ("tiny", "bm25s", "0.4000", "0.6667", "0.5000"),
        ("tiny", "keyword", "0.4000", "0.6667", "0.5000"),
        ("tiny", "hybrid rrf", "0.9000", "1.0000", "1.0000"),
    ]
    print_report(report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("COLLECTION  SEARCH      NDCG@10")
    assert len(lines) == 4
    assert lines[-1].endswith("+0.500 [+0.400, +0.600]")


def test_report_is_written_as_markdown_and_json(report: Report, tmp_path: Path) -> None:
    markdown, data = report.write(tmp_path / "out", "quality")
    text = markdown.read_text()
    assert "| tiny | hybrid rrf | 0.9000 | 1.0000 | 1.0000 | +0.200 [+0.100, +0.300] | +0.500" in text
    assert "| tiny | 10 | 0 | qrels.tsv | 3 | 3 | bm25s |" in text
    assert "2025-03-01 12:30 UTC. Model mock/text-hash, 768 dimensions." in text
    assert "| similarity_threshold | 0.1 |" in text

    found = json.loads(data.read_text())
    assert found["made_at"] == "2025-03-01T12:30:00+00:00"
    assert found["versions"]["postgres"] == "18.6"
    assert found["settings"]["rrf_weights"] == {"semantic": 0.7, "keyword": 0.3}
    (collection,) = found["collections"]
    assert (collection["documents"], collection["queries"], collection["qrels"]) == (10, 3, "qrels.tsv")
    keyword, hybrid = collection["runs"]
    assert keyword["ndcg@10_against_bm25s"] == {"difference": -0.0125, "low": -0.03, "high": 0.01}
    assert keyword["median_ms"] == 4.2
    assert (hybrid["mode"], hybrid["fusion"], hybrid["mrr@10"]) == ("hybrid", "rrf", 1.0)
    assert collection["baseline"]["recall@100"] == pytest.approx(2 / 3)
