"""knowledge migrate, and the lineage of a database."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.composition.database import create_roles, prepare
from app.db.schema.scripts import latest_revision
from app.embedded import DATABASE
from app.embedded.server import EmbeddedPostgres
from tests.cli.conftest import CommandLine
from tests.db.schema.fingerprint import fingerprint
from tests.fixtures.database.bouncer import bounced
from tests.fixtures.database.cluster import PASSWORDS, TestDatabase, connected, execute
from tests.fixtures.embedded import FAST
from tests.fixtures.http.serving import free_port


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


REMEDY = "use that version, or export with it and import into an empty database (embedded: another KB_DATA_DIR)"
OTHERS = {
    "update alembic_version set version_num = '0033'": (
        f"the database is at revision 0033, which this version (revision {latest_revision()}) does not have: its data"
        f" is of another development version or of a newer release; {REMEDY}"
    ),
    "drop table callers": (
        f"the database is at revision {latest_revision()}, but callers is missing or different: its data is of another"
        f" development version; {REMEDY}"
    ),
}
"""Statements that leave a database of another development version, and the line that refuses it."""
others = pytest.mark.parametrize(("statement", "line"), OTHERS.items(), ids=["unknown", "other-objects"])


async def change(database: TestDatabase, statement: str) -> list[tuple[str, str]]:
    """Make it a database of another version; gives its catalog."""
    await execute(database.superuser_dsn, statement)
    return await read(database)


async def read(database: TestDatabase) -> list[tuple[str, str]]:
    """The catalog, the revision, the models and the passwords of roles."""
    async with connected(database.superuser_dsn) as superuser:
        rows = [
            (name, str([tuple(row) for row in await superuser.fetch(f"select * from {name} order by 1")]))
            for name in ("alembic_version", "embedding_models", "pg_authid")
        ]
    return [*await fingerprint(database), *rows]


def expect(run: CommandLine, line: str, *arguments: str) -> None:
    """The command ends with the line."""
    result = run(*arguments)
    wanted = (
        json.dumps({"error": line, "status": 1}, separators=(",", ":")) if "--json" in arguments else f"error: {line}"
    )
    assert (result.status, result.out, result.err) == (1, "", f"{wanted}\n"), arguments


@pytest.mark.sampled(2)
@others
def test_commands_refuse_an_external_database_of_another_version(
    checking: CommandLine, fresh_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, statement: str, line: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", fresh_database.service_dsn)
    monkeypatch.setenv("DATABASE_ADMIN_URL", fresh_database.admin_dsn)
    monkeypatch.setenv("KB_WORKERS", "1")
    before = asyncio.run(change(fresh_database, statement))
    for option in ((), ("--check",), ("--check", "--json")):
        expect(checking, f"DATABASE_ADMIN_URL: {line}", "migrate", *option)
    model = ("--provider", "mock", "--dimensions", "32")
    expect(checking, f"DATABASE_ADMIN_URL: {line}", "model", "add", *model)
    for arguments in (
        *(("tenant", "list"), ("tenant", "create", "acme"), ("worker",)),
        *(("serve", "--port", str(free_port())), ("search", "--tenant", "acme", "harbour")),
    ):
        expect(checking, f"DATABASE_URL: {line}", *arguments)
    problem, _, remedy = line.partition("; ")
    found = {each["check"]: each for each in json.loads(checking("doctor", "--json").out)}["migrations"]
    assert (found["status"], found["detail"], found["remedy"]) == ("wrong", f"DATABASE_URL: {problem}", remedy)
    assert asyncio.run(read(fresh_database)) == before


@pytest.mark.sampled(2)
@others
def test_commands_refuse_a_data_folder_of_another_version(
    offline: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, line: str
) -> None:
    folder = tmp_path / "data"
    with EmbeddedPostgres(folder, settings=FAST) as server:
        address = server.start()
        database = TestDatabase(DATABASE, address)
        asyncio.run(create_roles(address.dsn(), PASSWORDS))
        asyncio.run(prepare(database.admin_dsn, service_role=None, model=None))
        before = asyncio.run(change(database, statement))
        monkeypatch.setenv("KB_DATA_DIR", str(folder))
        for arguments in (
            *(("migrate",), ("migrate", "--check"), ("tenant", "list"), ("model", "add"), ("worker",)),
            *(("serve", "--port", str(free_port())), ("serve", "--demo", "--port", str(free_port()))),
            ("search", "--tenant", "acme", "harbour"),
        ):
            expect(offline, f"KB_DATA_DIR: {line}", *arguments)
        assert asyncio.run(read(database)) == before


@pytest.fixture
async def pooled(fresh_database: TestDatabase, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The address of a pooler; the parameter is whether it keeps prepared statements."""
    async with bounced(fresh_database, connections=3, prepared=request.param) as dsn:
        yield dsn


@pytest.fixture
def command(checking: CommandLine, pooled: str, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("DATABASE_URL", pooled)
    return checking


def diagnose(command: CommandLine) -> tuple[list[dict[str, Any]], int]:
    """The findings about the pooler, and the number of all checks."""
    findings = command("doctor", "--json").json
    return [f for f in findings if f["check"] == "pooler"], len({f["check"] for f in findings})


@pytest.mark.parametrize("pooled", [False], indirect=True)
def test_lost_prepared_statements_are_wrong_and_stop_every_command(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((wrong,), few) = diagnose(command)
    assert wrong["status"] == "wrong"
    assert wrong["detail"].startswith("DATABASE_PREPARED_STATEMENTS: the pooler")
    assert wrong["remedy"].startswith("set it to off")
    refused = command("tenant", "list")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "DATABASE_PREPARED_STATEMENTS" in refused.err
    monkeypatch.setenv("DATABASE_PREPARED_STATEMENTS", "off")
    ((statements, _), many) = diagnose(command)
    assert statements["status"] == "ok"
    assert many > few
    command.succeed("tenant", "list")


@pytest.mark.parametrize("pooled", [True], indirect=True)
def test_kept_prepared_statements_are_fine(command: CommandLine) -> None:
    ((statements, _), _) = diagnose(command)
    assert statements["detail"] == "it shares connections and keeps prepared statements, which are on"
    command.succeed("tenant", "list")


@pytest.mark.parametrize("pooled", [False], indirect=True)
def test_doctor_checks_where_workers_listen(
    command: CommandLine,
    pooled: str,
    fresh_database: TestDatabase,
    cli_database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_PREPARED_STATEMENTS", "off")
    found = []
    for direct in (
        None,
        fresh_database.service_dsn,
        pooled,
        cli_database.service_dsn,
        "postgresql://kb_service:secret@127.0.0.1:1/knowledge",
    ):
        if direct is not None:
            monkeypatch.setenv("DATABASE_DIRECT_URL", direct)
        ((_, listening), _) = diagnose(command)
        found.append((listening["status"], listening["detail"]))
    assert found == [
        ("warning", "it does not forward notifications of new jobs, so workers look for jobs once a second"),
        ("ok", "workers listen for new jobs at DATABASE_DIRECT_URL"),
        ("wrong", "DATABASE_DIRECT_URL is the address of a pooler, too"),
        ("wrong", "DATABASE_DIRECT_URL is not the primary of DATABASE_URL"),
        ("wrong", "DATABASE_DIRECT_URL: cannot connect (ConnectionRefusedError)"),
    ]
