"""Commands."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from app.cli.eval import choose_variants
from app.cli.execution import CancelledWithin, run_async
from app.cli.main import main
from app.cli.output.failures import Interrupted
from tests.cli.conftest import PROGRAM, CommandLine, start_program
from tests.evaluation.conversations import make_conversations
from tests.evaluation.samples import make_tiny_collection
from tests.fixtures.database.cluster import MODEL, TestDatabase


def test_a_second_model_requires_its_provider(knowledge: CommandLine) -> None:
    result = knowledge("model", "add", "--next")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "EMBEDDING_NEXT_PROVIDER: must be set" in result.err


def test_wrong_setting_is_one_line_that_names_it(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_PORT", "nonsense")
    result = knowledge("tenant", "list")
    assert (result.status, result.err) == (1, "error: KB_PORT: must be an integer from 1 to 65535\n")


def test_traceback_is_shown_at_debug_only(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = knowledge("search", "x", "-t", "absent")
    monkeypatch.setenv("LOG_LEVEL", "debug")
    loud = knowledge("search", "x", "-t", "absent")
    assert "directory.py" not in quiet.err
    assert "directory.py" in loud.err
    assert loud.err.endswith(quiet.err)


@pytest.mark.slow
def test_output_closed_by_its_reader_ends_quietly(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    many = tmp_path / "many.jsonl"
    many.write_text("".join(f'{{"content": "{n} {"x" * 2000}"}}\n' for n in range(60)))
    knowledge.succeed("import", str(many), "-t", tenant, "--no-wait")
    line = f"'{PROGRAM}' export -t {tenant} | head -c 100 >/dev/null"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_program_is_installed_under_its_name(knowledge: CommandLine) -> None:
    process = start_program("--version")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, f"knowledge {version('knowledge-search')}\n"), err


def test_failure_with_json_is_one_object_on_stderr(knowledge: CommandLine, filled: str) -> None:
    def fail(*arguments: str) -> dict[str, object]:
        result = knowledge(*arguments)
        assert result.out == ""
        told: dict[str, object] = json.loads(result.err)
        assert told["status"] == result.status
        return told

    assert fail("search", "x", "-t", "absent", "--json") == {"error": "there is no tenant 'absent'", "status": 1}
    assert fail("search", "x", "-t", filled, "-n", "101", "--json") == {
        "error": "limit: must be between 1 and 100",
        "status": 1,
        "errors": [{"field": "limit", "message": "must be between 1 and 100"}],
    }
    assert fail("search", "x", "--json")["status"] == 2
    # After -- it is a search word.
    assert knowledge("search", "-t", "absent", "--", "--json").err.startswith("error: ")


def test_interruption_differs_from_cancelled_work() -> None:
    async def be_told(stop: bool) -> None:
        if stop:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        raise asyncio.CancelledError

    with pytest.raises(Interrupted):
        run_async(be_told(stop=True))
    with pytest.raises(CancelledWithin):
        run_async(be_told(stop=False))


@pytest.mark.parametrize(
    "line", ["tenant list", "tenant limits acme", "search --tenant acme x", "export --tenant acme", "model list"]
)
def test_command_that_only_reads_creates_no_database(offline: CommandLine, line: str) -> None:
    result = offline(*line.split())
    assert (result.status, result.out) == (1, "")
    folder = Path(".data").absolute()
    assert result.err.startswith(
        f"error: KB_DATA_DIR: no database in {folder} yet; set it to the folder of the service"
    )
    assert not Path(".data").exists()


@pytest.mark.parametrize("arguments", [("list", "-t", "harbour"), ("tenant", "list")], ids=" ".join)
def test_a_command_refuses_a_role_to_which_no_policy_applies(
    checking: CommandLine, cli_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    assert checking("tenant", "list").status == 0
    monkeypatch.setenv("DATABASE_URL", cli_database.superuser_dsn)
    refused = checking(*arguments)
    assert (refused.status, refused.out) == (1, "")
    assert "is a superuser" in refused.err


def test_bench_outside_a_checkout_names_the_place_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.cli.eval.CHECKOUT", tmp_path)
    assert main(["bench"]) == 1
    assert "part of the source tree" in capsys.readouterr().err


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
