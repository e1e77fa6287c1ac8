"""Tenants' slugs for the shell's completion: quick, silent, and without starting or changing anything.

Whoever presses the tab key has not asked for anything to be connected to: a `.env` that lies in the current folder is
not read, since it could name any host, and the embedded database is spoken to by its socket alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.settings import Settings

SECONDS = 1.0
"""A person who pressed the tab key waits no longer."""
SERVICE = "kb_service"
"""`app.composition.database.SERVICE`, whose import alone would take half of that time."""


def find_slugs(incomplete: str) -> list[str]:
    """The slugs that begin with `incomplete`, in order; none where no database is running or it does not answer."""
    from app.settings import load_settings

    try:
        database = _running_database(load_settings(env_file=None, identity_required=False))
        slugs = asyncio.run(_fetch(database)) if database is not None else []
    except Exception:  # nothing may be printed into a line that somebody is typing
        return []
    return sorted(slug for slug in slugs if slug.startswith(incomplete))


def _running_database(settings: Settings) -> Mapping[str, Any] | None:
    """What to connect with, for asyncpg."""
    if settings.database.url is not None:
        return {"dsn": settings.database.url.get_secret_value()}
    from app.embedded import DATABASE
    from app.embedded.address import PORT
    from app.embedded.data_folder import DataFolder
    from app.embedded.state import read_state

    data_dir = settings.database.data_dir.resolve()
    state = read_state(DataFolder(data_dir))
    if state is None or state.phase != "ready" or not state.socket_dir.startswith("/"):
        return None
    # Given apart, even an empty password is the one that is sent, and never that of PGPASSWORD.
    password = (data_dir / f"{SERVICE}-password").read_text().strip()
    return {
        "host": [state.socket_dir],
        "port": PORT,
        "user": SERVICE,
        "password": password,
        "database": DATABASE,
    }


async def _fetch(database: Mapping[str, Any]) -> list[str]:
    import asyncpg

    async with asyncio.timeout(SECONDS):
        connection = await asyncpg.connect(**database)
        try:
            return [row["slug"] for row in await connection.fetch("select slug from tenancy.list_tenants()")]
        finally:
            await connection.close()
