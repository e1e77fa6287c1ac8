"""A service of two models over a database of its own, whose trail or tables can be made to refuse writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import httpx
from asgi_lifespan import LifespanManager

from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.schema.owner import register_model
from app.embedded import EmbeddedAddress
from app.main import create_app
from app.settings import Settings
from tests.fixtures.database.cluster import MODEL, Connection, TestDatabase, connected, new_database
from tests.fixtures.http.callers import open_client
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import WIDER

TRAILS = ("audit", "platform_audit")
FIGURES = {"access_counts", "callers", "usage_by_day", "searches"}
"""Written in the background, after the action they record."""

REFUSAL = """
create table refused (what text);
create function refuse() returns trigger language plpgsql security definer set search_path = public as $$
begin
  if exists (select from refused where what = tg_argv[0]) then
    raise exception 'no % today', tg_argv[0];
  end if;
  return null;
end $$;
"""

Row = tuple[str, str, str, str, tuple[str, ...]]
"""A row of a trail: its id, actor, action, outcome and subjects."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The service, a client for it, and a superuser's connection that sees everything."""

    made: TestDatabase
    services: Services
    http: httpx.AsyncClient
    superuser: Connection
    tables: tuple[str, ...]

    @asynccontextmanager
    async def refusing(self, what: Literal["rows", "changes"]) -> AsyncIterator[None]:
        """Make the trails refuse new rows, or every other table refuse changes, at the end of the
        transaction.
        """
        await self.superuser.execute("insert into refused values ($1)", what)
        try:
            yield
        finally:
            await self.superuser.execute("delete from refused")

    async def read_tables(self) -> list[str]:
        """Every table that holds tenants' data, except the trails."""
        parts = (f"select '{t} ' || to_jsonb({t})::text as row from {t}" for t in self.tables)
        rows = await self.superuser.fetch(" union all ".join(parts) + " order by 1")
        return [row["row"] for row in rows]

    async def read_trails(self) -> set[Row]:
        """Every row of every trail."""
        rows = await self.superuser.fetch(
            "select id::text, actor, action, outcome, subject_ids::text[] as ids from audit union all"
            " select id::text, actor, action, outcome, array_remove(array[subject_tenant::text], null)"
            " from platform_audit"
        )
        return {(r["id"], r["actor"], r["action"], r["outcome"], tuple(r["ids"])) for r in rows}


@asynccontextmanager
async def open_stage(
    cluster: EmbeddedAddress, template: str, settings: Settings, verifier: TokenVerifier
) -> AsyncIterator[Stage]:
    """Start the service; no worker runs on its own."""
    async with new_database(cluster, template=template) as made, connected(made.superuser_dsn) as superuser:
        await register_model(made.admin_dsn, WIDER)
        tables = await _list_tables(superuser)
        # The check of the database, which refuses foreign functions, comes first.
        database = Database(made.service_dsn, pool_size=5)
        services = await build_services(database, FailingProvider(MODEL), next_provider=FailingProvider(WIDER))
        await superuser.execute(REFUSAL)
        for table in TRAILS:
            await superuser.execute(
                f"create trigger refuse after insert on {table} for each row execute function refuse('rows')"
            )
        for table in tables:
            await superuser.execute(
                f"create constraint trigger refuse after insert or update or delete on {table}"
                " deferrable initially deferred for each row execute function refuse('changes')"
            )
        app = create_app(settings, services, verifier)
        async with LifespanManager(app), open_client(app) as http:
            yield Stage(made, services, http, superuser, tables)
        await services.close()
        await database.close()


async def _list_tables(superuser: Connection) -> tuple[str, ...]:
    rows = await superuser.fetch(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
        " and not relispartition and relname <> 'alembic_version' order by 1"
    )
    return tuple(name for (name,) in rows if name not in {*TRAILS, *FIGURES})
