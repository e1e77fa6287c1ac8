"""Checks that `definitions.txt` was recorded from the present files of `alembic/sql`, or, with --write, records it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from app.composition.database import create_roles
from app.db.schema import definitions
from app.db.schema.migration import migrate
from app.embedded import EmbeddedPostgres
from tests.fixtures.database.cluster import FAST, PASSWORDS, TestDatabase, connected

PLACE = Path(definitions.__file__).with_name(definitions.RECORD)
COMMAND = ".venv/bin/python -m tests.db.schema.record --write"


async def render_new_database(folder: Path) -> str:
    """The record of a new database on a server of its own."""
    server = EmbeddedPostgres(folder / "data", settings=FAST)
    address = await asyncio.to_thread(server.start)
    try:
        await create_roles(address.dsn(), PASSWORDS)
        database = TestDatabase("knowledge", address)
        await migrate(database.admin_dsn)
        async with connected(database.admin_dsn) as owner:
            return definitions.render_record(await definitions.read_definitions(owner))
    finally:
        await asyncio.to_thread(server.stop)


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        with tempfile.TemporaryDirectory() as folder:
            PLACE.write_text(asyncio.run(render_new_database(Path(folder))), encoding="utf-8")
    elif PLACE.read_text(encoding="utf-8").split(" ")[0] != definitions.digest_sources():
        sys.exit(f"{PLACE.name} is older than alembic/sql; to record it again: {COMMAND}")


if __name__ == "__main__":
    main()
