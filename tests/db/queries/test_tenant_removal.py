"""Deleting a tenant removes all of its rows, and no row of another tenant."""

from __future__ import annotations

import asyncpg
import pytest

from app.db.database import Database
from app.db.queries.tenants import delete_tenant
from app.embedded import EmbeddedAddress
from tests.fixtures.database.cluster import connected, new_database
from tests.fixtures.database.seeded import Seeded


async def test_deleted_tenant_leaves_no_row_in_any_table(cluster: EmbeddedAddress, seeded_template: Seeded) -> None:
    async with (
        new_database(cluster, template=seeded_template.database.name) as made,
        connected(made.superuser_dsn) as superuser,
    ):

        async def counts() -> dict[str, dict[str, int]]:
            return {
                table: {
                    str(row["tenant_id"]): row["n"]
                    for row in await superuser.fetch(f"select tenant_id, count(*) as n from {table} group by 1")
                }
                for table in seeded_template.tables
            }

        before = await counts()
        database = Database(made.service_dsn)
        async with database.platform_session() as session:
            assert await delete_tenant(session, seeded_template.first, "test")
            assert not await delete_tenant(session, seeded_template.first, "test")
        await database.close()
        kept = str(seeded_template.second)
        assert await counts() == {table: {kept: rows[kept]} for table, rows in before.items()}
        audit = await superuser.fetch("select action, subject_tenant from platform_audit order by id desc limit 1")
        assert [tuple(row) for row in audit] == [("tenant.delete", seeded_template.first)]


async def test_deletion_that_would_leave_a_row_fails_completely(
    cluster: EmbeddedAddress, seeded_template: Seeded
) -> None:
    """A table of a later revision whose author forgot the foreign key."""
    async with (
        new_database(cluster, template=seeded_template.database.name) as made,
        connected(made.superuser_dsn) as superuser,
        connected(made.admin_dsn) as migrator,
    ):
        await migrator.execute("create table forgotten (tenant_id uuid not null)")
        await superuser.execute("insert into forgotten values ($1)", seeded_template.first)
        before = await superuser.fetchval("select count(*) from entries")
        database = Database(made.service_dsn)
        with pytest.raises(asyncpg.RaiseError, match="forgotten still has rows of the deleted tenant"):
            async with database.platform_session() as session:
                await delete_tenant(session, seeded_template.first, "test")
        assert await superuser.fetchval("select count(*) from entries") == before
        async with database.platform_session() as session:
            assert await delete_tenant(session, seeded_template.second, "test")
        await database.close()
