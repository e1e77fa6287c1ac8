"""Commands with DATABASE_URL: with the service role only, or as the migration role."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine


@pytest.fixture
def on_server(checking: CommandLine, service_dsn: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command on a database of its own, with roles and schema; the mock model is not registered."""
    monkeypatch.setenv("DATABASE_URL", service_dsn)
    monkeypatch.delenv("EMBEDDING_DIMENSIONS")
    return checking


def test_migration_registers_the_model_that_tenants_need(
    on_server: CommandLine, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = on_server("tenant", "create", "acme")
    assert (missing.status, "run: knowledge migrate" in missing.err) == (1, True)
    assert "DATABASE_ADMIN_URL" in on_server("migrate").err
    assert "DATABASE_ADMIN_URL" in on_server("model", "add").err

    monkeypatch.setenv("DATABASE_ADMIN_URL", admin_dsn)
    assert on_server.succeed("migrate", "--service-role", "kb_service").out.startswith("up to date at revision ")
    assert on_server.succeed("migrate", "--check", "--json").json["current"] is True
    assert on_server.succeed("model", "add").out.startswith("already registered: mock/")
    added = on_server.succeed("model", "add", "--provider", "mock", "--dimensions", "32", "--json").json
    assert (added["created"], added["model"]["dimensions"]) == (True, 32)
    monkeypatch.delenv("DATABASE_ADMIN_URL")

    dimensions = [model["dimensions"] for model in on_server.succeed("model", "list", "--json").json]
    assert {32, 768} <= set(dimensions)
    assert "mock      text-hash          32" in on_server.succeed("model", "list").out
    on_server.succeed("tenant", "create", "acme")
    assert [t["slug"] for t in on_server.succeed("tenant", "list", "--json").json] == ["acme"]
    assert on_server.succeed("tenant", "delete", "acme", "--yes", "--json").json["deleted"]["slug"] == "acme"


def test_migration_check_fails_for_a_data_folder_without_a_database(
    knowledge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "nothing"))
    result = knowledge("migrate", "--check")
    assert result.status == 1
    assert "the database is at revision none" in result.err
    assert not (tmp_path / "nothing").exists()


def test_migration_refuses_a_role_that_does_not_exist(
    on_server: CommandLine, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_ADMIN_URL", admin_dsn)
    result = on_server("migrate", "--service-role", "absent")
    assert (result.status, result.err) == (1, "error: --service-role: there is no role absent\n")
