from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from app.cli.execution import CancelledWithin, run_async
from app.cli.output.failures import Interrupted
from tests.cli.conftest import PROGRAM, CommandLine, start_program


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("serch", "x"), "'search'"),
        (("search",), "QUERY"),
        (("search", "x"), "--tenant"),
        (("search", "x", "-t", "a", "--mode", "psychic"), "hybrid"),
        (("serve", "--port", "70000"), "65535"),
        (("token", "--role", "king"), "reader"),
        (("erase", "--entry", "not-an-id", "-t", "a"), "'--entry': must be a UUID; see:"),
        (("search", "x", "--limit", "many", "-t", "a"), "must be an integer; see:"),
        (("reembed", "sideways", "-t", "a"), "status"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(knowledge: CommandLine, arguments: tuple[str, ...], reason: str) -> None:
    result = knowledge(*arguments)
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: ")
    assert reason in result.err
    assert "Value error" not in result.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("search", "x", "-t", "absent"), "there is no tenant 'absent'"),
        (("search", " ", "-t", "harbour"), "query: must have at least 1 character"),
        (("search", "x", "-t", "harbour", "-n", "101"), "limit: must be between 1 and 100"),
        (("import", "missing.jsonl", "-t", "absent"), "there is no file missing.jsonl"),
        (("ingest", "missing/*.md", "-t", "absent"), "there is no file missing/*.md"),
        (
            ("export", "-t", "absent", "-o", "missing/out.jsonl"),
            "missing/out.jsonl: No such file or directory",
        ),
        (("tenant", "create", "Not A Slug"), "slug: must be 1 to 63"),
        (("tenant", "delete", "absent", "--yes"), "there is no tenant 'absent'"),
        (("tenant", "delete", "absent"), "--yes: is required"),
        (("token", "--role", "reader"), "--tenant"),
        (("model", "add", "--provider", "local", "--model", "huge"), "EMBEDDING_MODEL"),
        (("model", "add", "--next"), "EMBEDDING_NEXT_PROVIDER: must be set"),
        (
            ("model", "add", "--next", "--provider", "mock"),
            "--next: uses the model of EMBEDDING_NEXT_PROVIDER",
        ),
        (("reembed", "-t", "absent"), "there is no tenant 'absent'"),
        (("search", "x", "-t", "harbour", "--cursor", "?"), "cursor: must be the next_cursor"),
        (("export", "-t", "absent", "--json"), "--json: requires --output"),
        (("settings", "show", "-t", "absent"), "there is no tenant 'absent'"),
        (("tenant", "limits", "absent", "--set", "entries"), "'entries' does not have the form NAME=VALUE"),
        (("tenant", "limits", "absent", "--set", "entries=many"), "limits.entries: must be an integer"),
        (("reembed", "switch", "-t", "absent", "--rate", "5"), "is allowed for start and rebuild only"),
    ],
)
def test_failure_is_one_line_and_status_1(
    knowledge: CommandLine, filled: str, arguments: tuple[str, ...], reason: str
) -> None:
    result = knowledge(*arguments)
    assert result.status == 1
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert reason in result.err


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

    assert fail("search", "x", "-t", "absent", "--json") == {
        "error": "there is no tenant 'absent'",
        "status": 1,
    }
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
    "line",
    ["tenant list", "tenant limits acme", "search --tenant acme x", "export --tenant acme", "model list"],
)
def test_command_that_only_reads_creates_no_database(offline: CommandLine, line: str) -> None:
    result = offline(*line.split())
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: KB_DATA_DIR: no database in .data yet; run knowledge serve")
    assert not Path(".data").exists()
