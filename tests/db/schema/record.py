"""Checks that the schema was recorded from the present files of `alembic/sql`, or, with --write, records it."""

import asyncio
import sys
import tempfile
from pathlib import Path

from app.composition.database import MIGRATOR, create_roles
from app.db.cluster.distribution import load_node_files
from app.db.schema import definitions, lineage
from app.db.schema.migration import migrate
from app.db.schema.scripts import SCRIPTS, latest_revision
from app.embedded import EmbeddedAddress
from app.embedded.server import EmbeddedPostgres
from tests.fixtures.database.cluster import FAST, PASSWORDS, TestDatabase, connected, execute

DEFINITIONS = [Path(definitions.__file__).with_name(name) for name in (definitions.RECORD, definitions.CITUS_RECORD)]
OBJECTS = [SCRIPTS / "objects" / f"{latest_revision()}{suffix}.txt" for suffix in ("", "_citus")]
COMMAND = ".venv/bin/python -m tests.db.schema.record --write"


async def render_new_databases(folder: Path) -> dict[Path, str]:
    """The records of a new database and of one with the texts for Citus, on a server of their own, by their places."""
    server = EmbeddedPostgres(folder / "data", settings=FAST)
    address = await asyncio.to_thread(server.start)
    try:
        await create_roles(address.dsn(), PASSWORDS)
        found = [await read_new_database(address, citus=citus) for citus in (False, True)]
        (one, objects), (citus, objects_of_citus) = found
        texts = [
            *(definitions.render_record(one), definitions.render_differences(one, citus)),
            *(lineage.render_record(objects), lineage.render_record(objects_of_citus, objects)),
        ]
        return dict(zip(DEFINITIONS + OBJECTS, texts, strict=True))
    finally:
        await asyncio.to_thread(server.stop)


async def read_new_database(address: EmbeddedAddress, *, citus: bool) -> tuple[dict[str, str], lineage.Objects]:
    """The definitions and objects of a new database."""
    database = TestDatabase("citus" if citus else "one_server", address)
    await execute(address.dsn(), f"create database {database.name} owner {MIGRATOR}")
    async with connected(database.superuser_dsn) as superuser:
        await superuser.execute("create extension vector")
        # A setting of Citus, which this server does not have, in functions for its nodes.
        await superuser.execute(f'grant set on parameter "citus.enable_ddl_propagation" to {MIGRATOR}')
    await migrate(database.admin_dsn, citus=citus)
    async with connected(database.admin_dsn) as owner:
        if citus:
            await load_node_files(owner)
        return await definitions.read_definitions(owner), await lineage.list_objects(owner)


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        with tempfile.TemporaryDirectory() as folder:
            for place, text in asyncio.run(render_new_databases(Path(folder))).items():
                place.write_text(text, encoding="utf-8")
        return
    for place in OBJECTS:
        if not place.exists():
            sys.exit(f"{place.name} is missing; to record it: {COMMAND}")
    for place in DEFINITIONS:
        if place.read_text(encoding="utf-8").split(" ")[0] != definitions.digest_sources():
            sys.exit(f"{place.name} is older than alembic/sql; to record it again: {COMMAND}")


if __name__ == "__main__":
    main()
