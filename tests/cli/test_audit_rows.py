"""Actions and reads of commands are in the audit trails, as over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.auth.tokens import TokenVerifier
from app.cli.execution import ACTOR
from tests.cli.conftest import SECRET, CommandLine, write_lines
from tests.fixtures.database.cluster import TestDatabase, connected

TRAILS = (
    "select action || ' ' || outcome from audit where actor = $1 and tenant_id = $2 union all"
    " select action || ' ' || outcome from platform_audit where actor = $1 and id > $3"
    " and (subject_tenant = $2 or subject_tenant is null)"
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tenant list", "tenant.list done"),
        ("tenant limits TENANT", "tenant.health done"),
        ("tenant limits TENANT --set entries=5", "tenant.limits done"),
        ("tenant delete TENANT --yes", "tenant.delete done"),
        ("settings show --tenant TENANT", "settings.read done"),
        ("settings set fusion=score --tenant TENANT", "settings.update done"),
        ("subscription list --tenant TENANT", "subscription.list done"),
        ("token revoke leaked --tenant TENANT", "token.revoke done"),
        ("token revoked --tenant TENANT", "token.list done"),
        ("eval --tenant TENANT", "feedback.read done"),
        ("erase --subject joe --yes --tenant TENANT", "erasure.create done"),
        ("reembed status --tenant TENANT", "model.read refused"),
        ("model add --provider mock --dimensions 12", "model.add done"),
        ("export --tenant TENANT", "tenant.export done"),
        ("import corpus.jsonl --no-wait --tenant TENANT", "entry.write done"),
        ("ingest note.txt --tenant TENANT", "asset.upload done"),
    ],
)
def test_command_leaves_exactly_one_row(
    line: str,
    expected: str,
    knowledge: CommandLine,
    tenant: str,
    tmp_path: Path,
    cli_database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_ADMIN_URL", cli_database.admin_dsn)
    write_lines(tmp_path / "corpus.jsonl", [{"_id": "1", "title": "", "text": "Boats lie here."}])
    (tmp_path / "note.txt").write_text("A note about the crane.")

    async def look() -> tuple[str, int]:
        async with connected(cli_database.superuser_dsn) as superuser:
            tenant_id = await superuser.fetchval("select id::text from tenants where slug = $1", tenant)
            last = await superuser.fetchval("select coalesce(max(id), 0) from platform_audit")
        return tenant_id, last

    async def find_rows(tenant_id: str, last: int) -> list[str]:
        async with connected(cli_database.superuser_dsn) as superuser:
            rows = await superuser.fetch(TRAILS, ACTOR, tenant_id, last)
        return [row[0] for row in rows]

    before = asyncio.run(look())
    knowledge(*line.replace("TENANT", tenant).split())
    assert asyncio.run(find_rows(*before)) == [expected]


def test_token_without_a_subject_differs_from_the_commands(knowledge: CommandLine, tenant: str) -> None:
    token = knowledge.succeed("token", "--tenant", tenant, "--role", "reader").out.strip()
    principal = asyncio.run(TokenVerifier(secret=SECRET).verify(token))
    assert principal.subject not in ("", ACTOR)
