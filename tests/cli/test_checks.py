"""Every command checks the database before it uses it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import TestDatabase


@pytest.mark.parametrize("arguments", [("list", "-t", "harbour"), ("tenant", "list")], ids=" ".join)
def test_a_command_refuses_a_role_to_which_no_policy_applies(
    checking: CommandLine,
    cli_database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    assert checking("tenant", "list").status == 0
    monkeypatch.setenv("DATABASE_URL", cli_database.superuser_dsn)
    refused = checking(*arguments)
    assert (refused.status, refused.out) == (1, "")
    assert "is a superuser" in refused.err
