from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine
from tests.db.cluster import TestDatabase, connected


def test_doctor_finds_nothing_wrong_with_a_sound_service(knowledge: CommandLine) -> None:
    findings = knowledge.succeed("doctor", "--json").json
    assert [finding["check"] for finding in findings] == [
        "settings",
        "tokens",
        "disk",
        "database",
        "extension",
        "role",
        "migrations",
        "isolation",
        "model",
        "provider",
    ]
    assert {finding["status"] for finding in findings} <= {"ok", "warn"}
    lines = knowledge.succeed("doctor").out.splitlines()
    assert len(lines) == len(findings)


def test_doctor_names_a_wrong_setting(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "chatty")
    result = knowledge("doctor")
    assert result.status == 1
    assert result.out == "fail  settings  LOG_LEVEL: must be debug, info, warning, error or critical\n"


def test_doctor_goes_on_after_a_database_out_of_reach(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://kb_service:secret@127.0.0.1:1/knowledge")
    result = knowledge("doctor", "--json")
    found = {finding["check"]: finding for finding in result.json}
    assert result.status == 1
    assert found["tokens"]["status"] == "warn"
    assert found["database"]["detail"].startswith("DATABASE_URL: cannot connect")
    assert found["provider"]["status"] == "ok"
    assert "secret" not in result.out


def test_doctor_says_what_a_role_lacks(
    knowledge: CommandLine, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", superuser_dsn)
    result = knowledge("doctor", "--json")
    (failed,) = [finding for finding in result.json if finding["status"] == "fail"]
    assert (failed["check"], "superuser" in failed["detail"]) == ("role", True)


@pytest.fixture
async def open_table(fresh_database: TestDatabase) -> str:
    """The address of a database in which one table's owner is free of row-level security."""
    async with connected(fresh_database.admin_dsn) as owner:
        await owner.execute("alter table jobs no force row level security")
    return fresh_database.service_dsn


def test_doctor_names_a_protection_that_is_missing(
    knowledge: CommandLine, open_table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", open_table)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", "16")
    result = knowledge("doctor", "--json")
    (failed,) = [finding for finding in result.json if finding["status"] == "fail"]
    assert failed["check"] == "isolation"
    assert failed["detail"] == (
        "table jobs has row-level security that its owner is free of;"
        " remedy: alter table jobs enable row level security, force row level security"
    )
    assert result.status == 1


def test_doctor_says_that_a_provider_is_away(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("KB_EMBEDDING_QUERY_TIMEOUT", "0.3")
    result = knowledge("doctor", "--json")
    failed = {finding["check"] for finding in result.json if finding["status"] == "fail"}
    assert "provider" in failed
