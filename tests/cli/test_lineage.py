"""Every command refuses a database that another development version created, in one line, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.composition.database import create_roles, prepare
from app.db.schema.scripts import latest_revision
from app.embedded import DATABASE, EmbeddedPostgres
from tests.cli.conftest import CommandLine
from tests.db.schema.fingerprint import fingerprint
from tests.fixtures.database.cluster import PASSWORDS, TestDatabase, connected
from tests.fixtures.embedded import FAST
from tests.fixtures.http.serving import free_port

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
    async with connected(database.superuser_dsn) as superuser:
        await superuser.execute(statement)
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


@others
def test_commands_refuse_an_external_database_of_another_version(
    checking: CommandLine,
    fresh_database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    line: str,
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
    assert (found["status"], found["detail"], found["remedy"]) == (
        "wrong",
        f"DATABASE_URL: {problem}",
        remedy,
    )
    assert asyncio.run(read(fresh_database)) == before


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
