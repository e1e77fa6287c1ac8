"""Tenants' slugs for the shell's completion: quick, silent, and without starting or changing anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.settings import Settings

SECONDS = 1.0
"""A person who pressed the tab key waits no longer."""
SERVICE = "kb_service"
"""`app.bootstrap.SERVICE`, whose import alone would take half of that time."""


def find_slugs(incomplete: str) -> list[str]:
    """The slugs that begin with `incomplete`, in order; none where no database is running or it does not answer."""
    from app.settings import load_settings

    try:
        address = _running_database(load_settings(identity_required=False))
        slugs = asyncio.run(_fetch(address)) if address is not None else []
    except Exception:  # nothing may be printed into a line that somebody is typing
        return []
    return sorted(slug for slug in slugs if slug.startswith(incomplete))


def _running_database(settings: Settings) -> str | None:
    if settings.database.url is not None:
        return settings.database.url.get_secret_value()
    from app.embedded import DATABASE, EmbeddedAddress
    from app.embedded.data_folder import DataFolder
    from app.embedded.state import read_state

    data_dir = settings.database.data_dir.expanduser().resolve()
    state = read_state(DataFolder(data_dir))
    if state is None or state.phase != "ready":
        return None
    password = (data_dir / f"{SERVICE}-password").read_text().strip()
    return EmbeddedAddress(state.socket_dir, password).dsn(SERVICE, DATABASE, password)


async def _fetch(address: str) -> list[str]:
    import asyncpg

    async with asyncio.timeout(SECONDS):
        connection = await asyncpg.connect(address)
        try:
            return [row["slug"] for row in await connection.fetch("select slug from tenancy.list_tenants()")]
        finally:
            await connection.close()
