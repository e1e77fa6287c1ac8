"""The seal of a migrated database: what lets an older version start on it during a rolling upgrade.

A version compares a database at its own revision with its own records. A later release may have replaced functions and
added tables, which an older version cannot know. So a migration leaves a digest of the definitions, as a comment that
only the owner of the tables can write, and an older version of the same major version compares with that.
"""

import re
from dataclasses import dataclass
from importlib.metadata import version

from app.db.rows import Connection
from app.db.schema.scripts import known_revisions, latest_revision

COMMENT = "select obj_description(to_regclass('public.alembic_version'), 'pg_class')"
SEAL = re.compile(r"revision (\d{4}) of version (\d+)(\.[\w.]+): definitions ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Seal:
    """What the last migration left: its revision, the major version of its release, and a digest of the definitions."""

    revision: str
    major: str
    digest: str


async def read_seal(connection: Connection) -> Seal | None:
    """The seal of the database, or None without one."""
    found = SEAL.fullmatch(await connection.fetchval(COMMENT) or "")
    return None if found is None else Seal(found[1], found[2], found[4])


async def write_seal(connection: Connection, digest: str) -> None:
    """Seal the database, as the owner of the tables, at the revision of this version."""
    text = f"revision {latest_revision()} of version {version('knowledge-search')}: definitions {digest}"
    assert SEAL.fullmatch(text)
    await connection.execute(f"comment on table public.alembic_version is '{text}'")


async def find_later(connection: Connection) -> Seal | None:
    """The seal of a later release of this major version, if one has migrated the database."""
    seal = await read_seal(connection)
    if seal is None or seal.revision in known_revisions():
        return None
    own_major = version("knowledge-search").partition(".")[0]
    revision = await connection.fetchval("select version_num from public.alembic_version")
    return seal if (revision, own_major) == (seal.revision, seal.major) else None
