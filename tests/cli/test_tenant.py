from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tests.cli.conftest import CommandLine


def test_tenant_is_created_listed_and_deleted(knowledge: CommandLine) -> None:
    made = knowledge.succeed("tenant", "create", "acme", "--name", "Acme Ltd.", "--json").json
    assert UUID(made["id"])
    assert (made["slug"], made["name"]) == ("acme", "Acme Ltd.")
    assert datetime.fromisoformat(made["created_at"]).tzinfo is not None
    assert made in knowledge.succeed("tenant", "list", "--json").json
    assert "Acme Ltd." in knowledge.succeed("tenant", "list").out

    again = knowledge("tenant", "create", "acme")
    assert (again.status, again.err) == (1, "error: a tenant 'acme' already exists\n")

    assert knowledge.succeed("tenant", "delete", "acme", "--yes").out == "deleted tenant acme\n"
    assert "acme" not in knowledge.succeed("tenant", "list").out


def test_limits_of_a_tenant_are_shown_changed_and_reset(knowledge: CommandLine, tenant: str) -> None:
    knowledge.succeed("settings", "set", "limits.entries=40", "-t", tenant)
    changed = knowledge.succeed(
        "tenant", "limits", tenant, "--set", "entries=100_000", "--set", "bytes=none", "--json"
    ).json
    assert changed.keys() == {"id", "slug", "limits"}
    assert changed["limits"]["entries"] == {"allowed": 100_000, "default": 10_000_000, "own": 40, "used": 0}
    assert changed["limits"]["bytes"]["allowed"] is None
    assert changed["limits"]["concurrent_searches"]["used"] is None
    table = knowledge.succeed("tenant", "limits", tenant).out.splitlines()
    assert table[0].split() == ["LIMIT", "ALLOWED", "DEFAULT", "OWN", "USED"]
    assert ["entries", "100,000", "10,000,000", "40", "0"] in [line.split() for line in table]
    back = knowledge.succeed("tenant", "limits", tenant, "--set", "entries=default", "--json").json
    assert back["limits"]["entries"]["allowed"] == 10_000_000
    refused = knowledge("tenant", "limits", tenant, "--set", "colours=3")
    assert (refused.status, "limits.colours: unknown" in refused.err) == (1, True)
