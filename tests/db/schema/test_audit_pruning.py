"""Old rows of the audit trails are pruned as the operations page describes, by the tables' owner alone."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from tests.fixtures.database.cluster import connected

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "sizing.md"
AGES = {"young": 399, "old": 401}
COUNT = "select actor || ' ' || count(*) from {} where actor = any ($1) group by actor order by 1"


def read_statement() -> str:
    (statement,) = (s for s in re.findall(r"<<'SQL'\n(.*?)^SQL$", PAGE.read_text("utf-8"), re.M | re.S) if "audit" in s)
    return str(statement)


async def test_only_the_owner_prunes_old_rows(
    services: Services,
    tenant: Tenant,
    other_tenant: Tenant,
    superuser_dsn: str,
    admin_dsn: str,
    service_dsn: str,
) -> None:
    async with connected(superuser_dsn) as superuser, connected(service_dsn) as service:
        for actor, days in AGES.items():
            await superuser.execute(
                "insert into audit (tenant_id, id, at, actor, action)"
                " select id, gen_random_uuid(), now() - make_interval(days => $2), $1, 'stats.read' from tenants",
                actor,
                days,
            )
            await superuser.execute(
                "insert into platform_audit (at, actor, action)"
                " values (now() - make_interval(days => $2), $1, 'tenant.list')",
                actor,
                days,
            )

        async def count(table: str) -> list[str]:
            return [row[0] for row in await superuser.fetch(COUNT.format(table), [*AGES])]

        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(read_statement())
        assert (await count("audit"), await count("platform_audit")) == (
            ["old 2", "young 2"],
            ["old 1", "young 1"],
        )
        async with connected(admin_dsn) as owner:
            assert not await owner.fetchval("select rolsuper or rolbypassrls from pg_roles where rolname = user")
            await owner.execute(read_statement())
        assert (await count("audit"), await count("platform_audit")) == (["young 2"], ["young 1"])
        assert (
            await superuser.fetchval("select actor from platform_audit where action = 'audit.prune'") == "kb_migrator"
        )
