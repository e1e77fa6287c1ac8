"""`knowledge eval` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.cli.evaluation import choose_variants, register
from tests.db.cluster import MODEL, TestDatabase
from tests.evaluation.samples import make_tiny_collection

runner = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    register(app)
    return app


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """The tiny collection as files."""
    tiny = make_tiny_collection()
    folder = tmp_path / "tiny"
    folder.mkdir()
    documents = [json.dumps({"_id": d.id, "title": "", "text": d.text}) for d in tiny.documents]
    (folder / "corpus.jsonl").write_text("\n".join(documents))
    (folder / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": q.id, "text": q.text}) for q in tiny.queries)
    )
    judged = [f"{q.id}\t{d}\t{grade:g}" for q in tiny.queries for d, grade in q.judgements.items()]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    (folder / "other.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", judged[0]]))
    return folder


@pytest.fixture
def environment(fresh_database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that lead to the test's database and the mock model."""
    monkeypatch.setenv("DATABASE_URL", fresh_database.service_dsn)
    monkeypatch.setenv("EMBEDDING_PROVIDER", MODEL.provider)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", str(MODEL.dimensions))
    monkeypatch.delenv("EMBEDDING_MODEL", raising=False)


@pytest.mark.usefixtures("environment")
def test_eval_prints_json_and_writes_the_report(app: typer.Typer, tiny_folder: Path, tmp_path: Path) -> None:
    arguments = ["eval", str(tiny_folder), "--json", "--output", str(tmp_path / "out")]
    result = runner.invoke(app, [*arguments, "--vector-cache", str(tmp_path / "vectors")])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report == json.loads((tmp_path / "out" / "evaluation.json").read_text())
    runs = report["collections"][0]["runs"]
    assert [(r["mode"], r["fusion"]) for r in runs] == [
        ("keyword", None), ("semantic", None), ("hybrid", "rrf"), ("hybrid", "score"),
    ]  # fmt: skip
    assert runs[0]["ndcg@10"] == pytest.approx((0.6309 + 1) / 3, abs=1e-4)
    assert report["settings"]["vectors_cached"] is True
    assert "tiny: embed: 10" in result.stderr
    assert len(list((tmp_path / "vectors").glob("*.sqlite3"))) == 1
    assert "# Ranking quality" in (tmp_path / "out" / "evaluation.md").read_text()


@pytest.mark.usefixtures("environment")
def test_eval_prints_a_table_of_what_was_chosen(app: typer.Typer, tiny_folder: Path) -> None:
    result = runner.invoke(
        app, ["eval", str(tiny_folder), "--qrels", "other.tsv", "--modes", "keyword", "--queries", "5"]
    )
    assert result.exit_code == 0, result.output
    assert "0.6309" in result.stdout
    assert "semantic" not in result.stdout


def test_eval_of_a_missing_folder_is_one_line(app: typer.Typer, tmp_path: Path) -> None:
    result = runner.invoke(app, ["eval", str(tmp_path / "absent")])
    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path / 'absent'}: there is no such folder\n"
    assert result.stdout == ""


def test_modes_choose_variants_in_the_order_of_the_report() -> None:
    assert [v.label for v in choose_variants("hybrid, keyword")] == ["keyword", "hybrid rrf", "hybrid score"]
    assert [v.label for v in choose_variants("hybrid-score")] == ["hybrid score"]
    with pytest.raises(typer.BadParameter, match="'fuzzy' is none of keyword, semantic, hybrid-rrf"):
        choose_variants("fuzzy")
