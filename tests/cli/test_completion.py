import json
import socket
import subprocess
from pathlib import Path

import pytest

from app.cli import place
from app.composition.database import SERVICE
from tests.cli.conftest import PROGRAM, CommandLine


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_each_shell(
    knowledge: CommandLine, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_KNOWLEDGE_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit):
        knowledge()
    script = knowledge.printed().out
    assert "_KNOWLEDGE_COMPLETE=complete_" + shell in script
    assert script.count("knowledge") > 1


def complete(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """The completions that bash would offer at the end of a line."""
    words = line.split(" ")
    monkeypatch.setenv("_KNOWLEDGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit) as ended:
        knowledge()
    assert ended.value.code in (0, None)
    return knowledge.printed().out.split()


def test_completion_offers_commands_options_and_choices(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete(knowledge, monkeypatch, "knowledge rel") == ["related"]
    assert complete(knowledge, monkeypatch, "knowledge tenant li") == ["list", "limits"]
    assert complete(knowledge, monkeypatch, "knowledge search --exp") == ["--explain"]
    assert complete(knowledge, monkeypatch, "knowledge search x --mode sem") == ["semantic"]


def test_completion_reads_no_file_that_a_command_before_has_named(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "named.env"
    file.write_text("KB_TENANT=acme")
    assert offline("--env-file", str(file), "tenant", "list", "--help").status == 0
    file.unlink()
    assert complete(offline, monkeypatch, "knowledge search --exp") == ["--explain"]


def test_completion_offers_the_tenants_with_the_prefix(
    knowledge: CommandLine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tenant in complete(knowledge, monkeypatch, f"knowledge search x --tenant {tenant[:8]}")
    assert complete(knowledge, monkeypatch, f"knowledge tenant delete {tenant}") == [tenant]
    assert complete(knowledge, monkeypatch, "knowledge search x -t zz-none") == []


def test_completion_is_silent_when_no_database_answers(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://kb_service:secret@127.0.0.1:1/knowledge")
    assert complete(knowledge, monkeypatch, "knowledge search x -t a") == []
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("KB_DATA_DIR", "nothing")
    assert complete(knowledge, monkeypatch, "knowledge search x -t a") == []
    assert knowledge.printed().err == ""


def test_completion_does_not_connect_to_what_the_current_folder_configures(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "of-somebody")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        host, port = listener.getsockname()
        Path(".env").write_text(f"DATABASE_URL=postgresql://kb_service@{host}:{port}/knowledge?sslmode=disable\n")
        state = Path(".data/run/state.json")
        state.parent.mkdir(parents=True)
        state.write_text(json.dumps({"phase": "ready", "socket_dir": host}))
        Path(".data/kb_service-password").touch()
        monkeypatch.setattr("app.embedded.data_folder.PORT", port)
        assert complete(offline, monkeypatch, "knowledge search x -t a") == []
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.slow
def test_completion_finds_the_tenants_of_a_running_embedded_database(
    embedded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.SERVICE == SERVICE
    embedded("tenant", "create", "completed")
    assert complete(embedded, monkeypatch, "knowledge search x -t compl") == ["completed"]


@pytest.mark.slow
def test_completion_works_in_a_real_bash(knowledge: CommandLine) -> None:
    script = (
        f'eval "$(_KNOWLEDGE_COMPLETE=source_bash {PROGRAM})";'
        f" COMP_WORDS=({PROGRAM} rel); COMP_CWORD=1; _knowledge_completion {PROGRAM};"
        ' echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "related\n"
