"""The contents of an evaluation's report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.eval import print_report
from app.evaluation.collection import join_collections
from app.evaluation.metrics import Variant
from app.evaluation.report import Report, make_rows, write_runs
from tests.evaluation.samples import make_evaluation, make_report, make_tiny_collection


@pytest.fixture
def report() -> Report:
    return make_report(make_evaluation())


def test_table_has_a_row_for_each_variant_and_the_baseline(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    rows = make_rows(report.evaluations)
    assert [(*row[:2], row[2].split()[0], *row[3:6]) for row in rows] == [
        ("tiny", "bm25s", "0.4000", "1.0000", "1.0000", "1.0000"),
        ("tiny", "keyword", "0.4000", "1.0000", "1.0000", "1.0000"),
        ("tiny", "semantic", "0.3000", "1.0000", "1.0000", "1.0000"),
        ("tiny", "hybrid rrf", "0.9000", "1.0000", "1.0000", "1.0000"),
    ]
    assert rows[1][2] == "0.4000 [0.000, 0.700]", "the least and the greatest mean of three draws"
    assert [row[-1].split()[0] if row[-1] else "" for row in rows] == ["", "", "−0.100", "+0.500"]
    print_report(report)
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0].startswith("COLLECTION  SEARCH")
    assert lines[4].endswith("+0.500 [+0.200, +0.900]")
    assert "tiny: 2 questions are not measured: adversarial" in output.err


def test_report_is_written_as_markdown_and_json(report: Report, tmp_path: Path) -> None:
    markdown, data = report.write(tmp_path / "out", "quality")
    text = markdown.read_text()
    assert "| tiny | hybrid rrf | 0.9000 [0.900, 0.900] | 1.0000 | 1.0000 | 1.0000 | 1.0000 | +0.500" in text
    assert "| tiny | 10 | 0 | qrels.tsv | 3 | 3 | adversarial 2 | bm25s |" in text
    assert "| first | 1 | nDCG@10 | 0.600 | 0.500 | 0.200 | 0.900 | +0.400" in text
    assert "2025-03-01 12:30 UTC. Model mock/text-hash, 768 dimensions." in text
    assert "| similarity_threshold | 0.1 |" in text

    found = json.loads(data.read_text())
    assert found["made_at"] == "2025-03-01T12:30:00+00:00"
    assert found["versions"]["postgres"] == "18.6"
    assert found["settings"]["rrf_weights"] == {"semantic": 0.7, "keyword": 0.3}
    assert found["summary"] == []
    (collection,) = found["collections"]
    assert (collection["documents"], collection["queries"], collection["qrels"]) == (10, 3, "qrels.tsv")
    assert collection["ignored_queries"] == {"adversarial": 2}
    keyword, semantic, hybrid = collection["runs"]
    assert keyword["ndcg@10_against_bm25s"]["difference"] == pytest.approx(0)
    assert keyword["ndcg@10_against_better_leg"] is None
    assert semantic["ndcg@10_against_better_leg"]["difference"] == pytest.approx(-0.1)
    assert keyword["median_ms"] == 4.2
    assert keyword["intervals"]["ndcg@10"] == pytest.approx([0, 0.7])
    assert (hybrid["mode"], hybrid["fusion"], hybrid["mrr@10"]) == ("hybrid", "rrf", 1.0)
    assert collection["baseline"]["recall@100"] == 1.0
    (group,) = collection["groups"]
    assert (group["name"], group["queries"], group["runs"][0]["ndcg@10"]) == ("first", 1, 0.5)


def test_summary_of_several_collections_is_in_the_report(tmp_path: Path) -> None:
    markdown, data = make_report(make_evaluation(), make_evaluation("hard", 0.35)).write(tmp_path)
    assert "| hybrid rrf | 0.6250 | +0.225 | −0.050 [" in markdown.read_text()
    row = json.loads(data.read_text())["summary"][-1]
    assert (row["search"], row["worst_in"]) == ("hybrid rrf", "hard")
    assert row["worst"]["difference"] == pytest.approx(-0.05)


def test_rankings_are_written_for_trec_eval(tmp_path: Path) -> None:
    evaluation = make_evaluation()
    rankings = {Variant("hybrid", "rrf"): [["d0", "d2"], ["d1"], []]}
    make_report(replace(evaluation, rankings=rankings)).write(tmp_path, "quality")
    assert (tmp_path / "quality-runs" / "tiny.hybrid-rrf.trec").read_text().splitlines() == [
        "q1 Q0 d0 1 1.000000 hybrid-rrf",
        "q1 Q0 d2 2 0.500000 hybrid-rrf",
        "q2 Q0 d1 1 1.000000 hybrid-rrf",
    ]


def test_rankings_of_parts_have_a_file_for_each(tmp_path: Path) -> None:
    tiny = make_tiny_collection()
    parts = [replace(tiny, name=name, queries=tiny.queries[:1]) for name in ("one", "two")]
    rankings = {Variant("keyword"): [["d0"], ["d5"]]}
    whole = replace(make_evaluation(), collection=join_collections("both", parts), rankings=rankings)
    one, two = write_runs(whole, tmp_path)
    assert (one, two) == (tmp_path / "both" / "one.keyword.trec", tmp_path / "both" / "two.keyword.trec")
    assert one.read_text() == "q1 Q0 d0 1 1.000000 keyword\n"
    assert two.read_text() == "q1 Q0 d5 1 1.000000 keyword\n"
