"""Which commands read `.env` in the current folder, and which only a file that `--env-file` names."""

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

WRONG = "KB_PORT=none\n"
"""Read, it fails the command, which names the setting."""
REFUSED = "KB_PORT: must be an integer from 1 to 65535"
NOTE = "note: .env in this folder is not read"
SERVING = (("serve",), ("worker",), ("migrate",))
WORKING = (
    ("search", "x", "-t", "a"),
    ("mcp", "-t", "a", "--config"),
    ("token", "--role", "platform_admin"),
    ("doctor",),
    ("tenant", "list"),
    ("ingest", ".", "-t", "a"),
)


@pytest.mark.parametrize("arguments", SERVING)
def test_commands_that_serve_read_the_file_of_their_folder(offline: CommandLine, arguments: tuple[str, ...]) -> None:
    Path(".env").write_text(WRONG)
    result = offline(*arguments)
    assert (result.status, REFUSED in result.err, NOTE in result.err) == (1, True, False)


@pytest.mark.parametrize("arguments", WORKING)
def test_other_commands_read_only_a_file_that_is_named(
    offline: CommandLine, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".env").write_text(WRONG)
    result = offline(*arguments)
    assert REFUSED not in result.out + result.err
    assert NOTE in result.err
    named = offline("--env-file", ".env", *arguments)
    assert (named.status, "KB_PORT" in named.out + named.err, NOTE in named.err) == (1, True, False)
    monkeypatch.setenv("KB_ENV_FILE", ".env")
    named = offline(*arguments)
    assert (named.status, "KB_PORT" in named.out + named.err) == (1, True)


def test_a_named_file_replaces_that_of_the_folder(offline: CommandLine) -> None:
    Path(".env").write_text(WRONG)
    Path("mine.env").write_text("LOG_LEVEL=loud\n")
    result = offline("--env-file", "mine.env", "migrate")
    assert "LOG_LEVEL: must be" in result.err
    assert REFUSED not in result.err


def test_a_named_file_that_is_missing_is_wrong_usage(offline: CommandLine) -> None:
    result = offline("--env-file", "absent.env", "tenant", "list")
    assert (result.status, "absent.env" in result.err) == (2, True)


def test_a_service_does_not_start_on_settings_that_others_can_change(offline: CommandLine) -> None:
    Path(".env").touch()
    Path(".env").chmod(0o622)
    result = offline("serve")
    assert result.err.splitlines() == [
        "error: .env: can be changed by other users, who could redirect keys; run: chmod go-w .env"
    ]


def test_a_key_of_the_environment_is_not_sent_to_an_address_of_a_file(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-operator")
    Path(".env").write_text("OPENAI_BASE_URL=http://elsewhere/\n")
    result = offline("serve")
    assert result.err.splitlines() == [
        "error: OPENAI_API_KEY and OPENAI_BASE_URL: must come from one source, but the environment sets the key and "
        "the file the address; set both in the environment or both in the file"
    ]
