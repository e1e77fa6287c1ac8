"""`knowledge eval` as typed by a user."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer

from app.cli.eval import choose_variants
from app.cli.main import main
from tests.evaluation.conversations import make_conversations
from tests.evaluation.samples import make_tiny_collection
from tests.fixtures.database.cluster import MODEL, TestDatabase


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """The tiny collection as files."""
    tiny = make_tiny_collection()
    folder = tmp_path / "tiny"
    folder.mkdir()
    documents = [json.dumps({"_id": d.id, "title": "", "text": d.text}) for d in tiny.documents]
    (folder / "corpus.jsonl").write_text("\n".join(documents))
    (folder / "queries.jsonl").write_text("\n".join(json.dumps({"_id": q.id, "text": q.text}) for q in tiny.queries))
    judged = [f"{q.id}\t{d}\t{grade:g}" for q in tiny.queries for d, grade in q.judgements.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    (folder / "other.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", judged[0]]))
    return folder


@pytest.fixture
def environment(fresh_database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings for the test's database and the mock model."""
    monkeypatch.setenv("DATABASE_URL", fresh_database.service_dsn)
    monkeypatch.setenv("EMBEDDING_PROVIDER", MODEL.provider)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", str(MODEL.dimensions))
    monkeypatch.delenv("EMBEDDING_MODEL", raising=False)


@pytest.mark.usefixtures("environment")
def test_eval_prints_json_and_writes_the_report(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", str(tiny_folder), "--json", "--output", str(tmp_path / "out")]
    assert main([*arguments, "--vector-cache", str(tmp_path / "vectors")]) == 0
    output = capsys.readouterr()
    report = json.loads(output.out)
    assert report == json.loads((tmp_path / "out" / "evaluation.json").read_text())
    runs = report["collections"][0]["runs"]
    assert [(r["mode"], r["fusion"]) for r in runs] == [
        ("keyword", None), ("semantic", None), ("hybrid", "rrf"), ("hybrid", "score"),
    ]  # fmt: skip
    assert runs[0]["ndcg@10"] == pytest.approx((0.6309 + 1) / 3, abs=1e-4)
    assert report["settings"]["vectors_cached"] is True
    assert "tiny: embed: 10 of 10" in output.err
    assert len(list((tmp_path / "vectors").glob("*.sqlite3"))) == 1
    assert "# Ranking quality" in (tmp_path / "out" / "evaluation.md").read_text()


@pytest.mark.usefixtures("environment")
def test_eval_prints_a_table_of_the_chosen_variants(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--qrels", "other.tsv", "--modes", "keyword", "--queries", "5"]
    assert main(["eval", str(tiny_folder), *options]) == 0
    table = capsys.readouterr().out
    assert "0.6309" in table
    assert "hybrid" not in table


@pytest.mark.usefixtures("environment")
def test_eval_of_several_collections_prints_parts_and_a_summary(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(tiny_folder, whole / "east")
    assert main(["eval", str(tiny_folder), str(whole), "--modes", "keyword,semantic,hybrid-score"]) == 0
    tables = [table.splitlines() for table in capsys.readouterr().out.split("\n\n")]
    assert [table[0].split()[0] for table in tables] == ["COLLECTION", "WHOLE", "SEARCH"]
    assert [line.split()[0] for line in tables[1][1:3]] == ["east", "all"]
    assert [line.split("  ")[0] for line in tables[2][1:]] == ["bm25s", "keyword", "semantic", "hybrid score"]


@pytest.mark.usefixtures("environment")
def test_eval_reads_locomo_and_counts_what_it_ignores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps(make_conversations()))
    assert main(["eval", str(tmp_path), "--modes", "keyword"]) == 0
    output = capsys.readouterr()
    assert "multi-hop" in output.out
    assert "locomo: 1 questions are not measured: adversarial" in output.err
    assert main(["eval", str(path), "--modes", "keyword", "--json"]) == 0
    (collection,) = json.loads(capsys.readouterr().out)["collections"]
    assert [part["name"] for part in collection["parts"]] == ["conv-1", "conv-2"]
    assert {group["name"] for group in collection["groups"]} == {"multi-hop", "single-hop", "temporal"}
    assert collection["ignored_queries"]["adversarial"] == 1


@pytest.mark.usefixtures("environment")
def test_eval_names_the_path_that_it_cannot_write(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tiny_folder / "corpus.jsonl"
    assert main(["eval", str(tiny_folder), "--modes", "keyword", "--output", str(taken)]) == 1
    assert f"--output: cannot write to {taken}: File exists" in capsys.readouterr().err


@pytest.mark.usefixtures("environment")
def test_eval_of_a_missing_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path / "absent")]) == 1
    output = capsys.readouterr()
    assert output.err == f"error: {tmp_path / 'absent'}: there is no such folder\n"
    assert output.out == ""


def test_eval_refuses_an_unknown_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path), "--modes", "fuzzy"]) == 2
    assert "'fuzzy' must be one of hybrid, keyword, semantic, hybrid-rrf" in capsys.readouterr().err


def test_modes_choose_variants_in_the_order_of_the_report() -> None:
    assert [v.label for v in choose_variants("hybrid, keyword")] == ["keyword", "hybrid rrf", "hybrid score"]
    assert [v.label for v in choose_variants("hybrid-score")] == ["hybrid score"]
    with pytest.raises(typer.BadParameter, match="'' must be one of hybrid, keyword"):
        choose_variants("keyword,")
