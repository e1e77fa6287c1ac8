from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest

from app.auth.principal import Principal, Role
from app.auth.tokens import TokenVerifier
from tests.cli.conftest import SECRET, CommandLine


def verify(token: str, *, audience: str | None = None, issuer: str | None = None) -> Principal:
    return asyncio.run(TokenVerifier(secret=SECRET, audience=audience, issuer=issuer).verify(token))


def test_tenant_is_created_listed_and_deleted(knowledge: CommandLine) -> None:
    made = knowledge.succeed("tenant", "create", "acme", "--name", "Acme Ltd.", "--json").json
    assert UUID(made["id"])
    assert (made["slug"], made["name"]) == ("acme", "Acme Ltd.")
    assert datetime.fromisoformat(made["created_at"]).tzinfo is not None
    assert made in knowledge.succeed("tenant", "list", "--json").json
    assert "Acme Ltd." in knowledge.succeed("tenant", "list").out

    again = knowledge("tenant", "create", "acme")
    assert (again.status, again.err) == (1, "error: a tenant 'acme' exists already\n")

    assert knowledge.succeed("tenant", "delete", "acme", "--yes").out == "deleted tenant acme\n"
    assert "acme" not in knowledge.succeed("tenant", "list").out


@pytest.mark.parametrize(
    "line",
    ["tenant list", "tenant limits acme", "search --tenant acme x", "export --tenant acme", "model list"],
)
def test_command_that_only_reads_makes_no_database(offline: CommandLine, line: str) -> None:
    result = offline(*line.split())
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: KB_DATA_DIR: no database in .data yet; run knowledge serve")
    assert not Path(".data").exists()


def test_token_carries_what_was_asked_for(
    knowledge: CommandLine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JWT_AUDIENCE", "knowledge")
    monkeypatch.setenv("JWT_ISSUER", "us")
    tenants = {t["slug"]: t["id"] for t in knowledge.succeed("tenant", "list", "--json").json}
    arguments = ("--tenant", tenant, "--role", "creator", "--role", "reader", "--subject", "jane")
    token = knowledge.succeed("token", *arguments, "--ttl", "60").out
    assert token.count("\n") == 1
    principal = verify(token.strip(), audience="knowledge", issuer="us")
    assert principal == Principal("jane", UUID(tenants[tenant]), frozenset({Role.CREATOR, Role.READER}))


def test_token_of_a_platform_admin_needs_no_tenant(knowledge: CommandLine) -> None:
    made = knowledge.succeed("token", "--role", "platform_admin", "--ttl", "60", "--json").json
    assert made.keys() == {"token", "subject", "tenant_id", "roles", "ttl"}
    assert (made["roles"], made["ttl"]) == (["platform_admin"], 60)
    principal = verify(made["token"])
    assert (principal.tenant_id, principal.roles) == (None, frozenset({Role.PLATFORM_ADMIN}))


def test_token_cannot_be_made_with_an_issuer_of_ones_own(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JWT_SECRET")
    monkeypatch.setenv("JWT_JWKS_URL", "https://issuer.example/keys")
    result = knowledge("token", "--role", "platform_admin")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: JWT_JWKS_URL: tokens come from your identity provider")
