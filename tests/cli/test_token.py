from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from app.auth.principal import Principal, Role
from app.auth.tokens import TokenVerifier
from tests.cli.conftest import SECRET, CommandLine


def verify(token: str, *, audience: str | None = None, issuer: str | None = None) -> Principal:
    return asyncio.run(TokenVerifier(secret=SECRET, audience=audience, issuer=issuer).verify(token))


def test_token_contains_the_requested_claims(
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


def test_token_without_a_tenant_is_for_the_one_of_the_environment(
    knowledge: CommandLine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_TENANT", tenant)
    given = knowledge.succeed("token", "--role", "reader", "--tenant", tenant, "--json").json
    assert knowledge.succeed("token", "--role", "reader", "--json").json["tenant_id"] == given["tenant_id"]
    assert knowledge.succeed("token", "--role", "platform_admin", "--json").json["tenant_id"] is None
    monkeypatch.delenv("KB_TENANT")
    result = knowledge("token", "--role", "reader")
    assert (result.status, result.out) == (1, "")
    assert "--tenant: every role except platform_admin requires one, or KB_TENANT" in result.err


def test_token_of_a_platform_admin_needs_no_tenant(knowledge: CommandLine) -> None:
    made = knowledge.succeed("token", "--role", "platform_admin", "--ttl", "60", "--json").json
    assert made.keys() == {"token", "token_id", "subject", "tenant_id", "roles", "groups", "ttl"}
    assert (made["roles"], made["ttl"]) == (["platform_admin"], 60)
    principal = verify(made["token"])
    assert (principal.tenant_id, principal.roles) == (None, frozenset({Role.PLATFORM_ADMIN}))


def test_token_cannot_be_issued_when_an_issuer_is_configured(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JWT_SECRET")
    monkeypatch.setenv("JWT_JWKS_URL", "https://issuer.example/keys")
    result = knowledge("token", "--role", "platform_admin")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: JWT_JWKS_URL: tokens come from your identity provider")
