"""Commands with DATABASE_URL: with the service role only, or as the migration role."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.composition.database import DatabaseAddresses, open_database
from app.errors import ConfigurationError
from app.settings import load_settings
from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import TestDatabase, connected


@pytest.fixture
def on_server(
    checking: CommandLine, service_dsn: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
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
    assert on_server.succeed("migrate", "--service-role", "kb_service").out.startswith(
        "up to date at revision "
    )
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


def test_database_from_before_the_first_release_is_refused_with_a_remedy(
    on_server: CommandLine, admin_dsn: str, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def set_revision() -> None:
        async with connected(superuser_dsn) as superuser:
            await superuser.execute("update alembic_version set version_num = '0100'")

    asyncio.run(set_revision())
    monkeypatch.setenv("DATABASE_ADMIN_URL", admin_dsn)
    for command in (("migrate",), ("migrate", "--check"), ("tenant", "list")):
        result = on_server(*command)
        assert result.status == 1
        assert result.err.count("\n") == 1
        assert result.err.startswith("error: ")
        assert "at revision 0100, which this version does not have; use a newer version, or" in result.err
        assert result.err.endswith("create it again (embedded: delete the folder KB_DATA_DIR)\n")


async def test_refusal_of_an_old_embedded_database_names_its_folder(
    fresh_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("update alembic_version set version_num = '0100'")
    addresses = DatabaseAddresses(fresh_database.service_dsn, fresh_database.admin_dsn)

    @contextlib.asynccontextmanager
    async def embedded(_folder: Path) -> AsyncIterator[DatabaseAddresses]:
        yield addresses

    monkeypatch.setattr("app.composition.database.embedded_database", embedded)
    settings = load_settings({"KB_DATA_DIR": str(tmp_path), "EMBEDDING_PROVIDER": "mock"}, env_file=None)
    with pytest.raises(ConfigurationError, match=r"^KB_DATA_DIR: the database is at revision 0100"):
        async with open_database(settings):
            pass
