"""The commands for a Citus cluster, on one server; `tests/citus` has them on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import TestDatabase

LINES = (
    "nodes",
    "nodes --shards",
    "tenant move acme --to worker-2:5432",
    "tenant move acme --to db:1 --alone",
)


@pytest.mark.parametrize("line", LINES)
def test_one_server_is_not_a_cluster(
    line: str, knowledge: CommandLine, cli_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = knowledge(*line.split())
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("error: DATABASE_ADMIN_URL: must be set to the role that owns the tables")
    monkeypatch.setenv("DATABASE_ADMIN_URL", cli_database.admin_dsn)
    refused = knowledge(*line.split())
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == "error: DATABASE_ADMIN_URL: the database is one server, not a Citus cluster\n"


@pytest.mark.parametrize("line", LINES)
def test_embedded_database_is_not_a_cluster(line: str, offline: CommandLine) -> None:
    refused = offline(*line.split())
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == "error: the embedded database is one server, not a Citus cluster\n"
    assert not Path(".data").exists()


@pytest.mark.parametrize("given", ["worker-2", "worker-2:", "worker-2:five", "worker-2:-1", "w:99999"])
def test_node_is_a_host_and_a_port(given: str, knowledge: CommandLine) -> None:
    refused = knowledge("tenant", "move", "acme", "--to", given)
    assert (refused.status, refused.err) == (
        1,
        f"error: --to: {given!r} does not have the form HOST:PORT\n",
    )
