"""`knowledge doctor` and other commands with PgBouncer in transaction mode at DATABASE_URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.fixtures.database.bouncer import bounced
from tests.fixtures.database.cluster import TestDatabase


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
