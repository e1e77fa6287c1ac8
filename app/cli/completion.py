"""Shell completion of tenants' slugs: fast, silent, and without side effects.

Pressing the tab key must not connect to arbitrary hosts, so a `.env` in the current folder, which could name any
host, is not read, and the embedded database is reached only through its socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.settings import Settings

SECONDS = 1.0
"""Time limit, because a person waits."""
SERVICE = "kb_service"
"""The same as `app.composition.database.SERVICE`, whose import would take half of that time."""


def find_slugs(incomplete: str) -> list[str]:
    """List the slugs that start with `incomplete`, in order; none if no database runs or answers."""
    import asyncio

    from app.settings import load_settings

    try:
        database = _running_database(load_settings(env_file=None, identity_required=False))
        slugs = asyncio.run(_fetch(database)) if database is not None else []
    except Exception:  # print nothing into the line that the user is typing
        return []
    return sorted(slug for slug in slugs if slug.startswith(incomplete))


def _running_database(settings: Settings) -> Mapping[str, Any] | None:
    """Connection arguments for asyncpg."""
    if settings.database.url is not None:
        return {"dsn": settings.database.url.get_secret_value()}
    from app.embedded import DATABASE
    from app.embedded.data_folder import PORT, DataFolder, read_state, require_created_here

    if "data_dir" not in settings.database.model_fields_set:
        require_created_here(settings.database.data_dir)
    data_dir = settings.database.data_dir.resolve()
    state = read_state(DataFolder(data_dir))
    if state is None or state.phase != "ready" or not state.socket_dir.startswith("/"):
        return None
    # Passed separately, even an empty password is used instead of PGPASSWORD.
    password = (data_dir / f"{SERVICE}-password").read_text().strip()
    return {
        "host": [state.socket_dir],
        "port": PORT,
        "user": SERVICE,
        "password": password,
        "database": DATABASE,
    }


async def _fetch(database: Mapping[str, Any]) -> list[str]:
    import asyncio

    import asyncpg

    async with asyncio.timeout(SECONDS):
        connection = await asyncpg.connect(**database)
        try:
            return [row["slug"] for row in await connection.fetch("select slug from tenancy.list_tenants()")]
        finally:
            await connection.close()
