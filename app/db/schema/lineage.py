"""Tell whether this version's revisions created a database, or those of another development version."""

from collections.abc import Mapping

from app.db.cluster.metadata import SQL as METADATA
from app.db.cluster.metadata import has_citus
from app.db.rows import Connection
from app.db.schema import catalog, scripts
from app.db.schema.scripts import REMEDY, check_revision
from app.db.statements import load_statements
from app.errors import ConfigurationError

SQL = load_statements(__name__)

Objects = Mapping[str, frozenset[str]]
"""The parts of each table and type, e.g. `entries`: a column, check or unique key as `NAME:DIGEST`."""


async def read_revision(dsn: str, setting: str) -> str | None:
    """The database's revision, or None when it has never been migrated.

    Raises ConfigurationError, which names the setting, for a database of another lineage.
    """
    async with catalog.using(await catalog.connect(dsn, setting)) as connection:
        return await check_lineage(connection, setting)


async def check_lineage(connection: Connection, setting: str) -> str | None:
    """As `read_revision`, on a connection to one server or to the coordinator of a cluster. Changes nothing."""
    revision = await catalog.fetch_revision(connection)
    if revision is not None:
        check_revision(revision, setting)
        await check_objects(connection, revision, setting)
    return revision


async def check_objects(connection: Connection, revision: str, setting: str, *, later: bool = False) -> None:
    """Raise ConfigurationError if an object that the revision of this version creates is missing or different.

    In the database of a `later` release, which may widen a check, only a missing one counts. The workers of a cluster,
    which do not have all tables, are not checked.
    """
    records = [read_record(revision)]
    if await has_citus(connection):
        if not await connection.fetchval(METADATA["is_coordinator"].sql):
            return
        records.append(read_record(revision, citus=True))  # or the extension came after the tables
    found = await list_objects(connection)
    if later:
        found, records = _keep_names(found), [_keep_names(record) for record in records]
    differences = [_find_difference(record, found) for record in records]
    if None not in differences:
        raise ConfigurationError(
            setting,
            f"the database is at revision {revision}, but {differences[-1]} is missing or different: its data is of"
            " another development version",
            REMEDY,
        )


def _keep_names(objects: Objects) -> Objects:
    return {name: frozenset(part.partition(":")[0] for part in parts) for name, parts in objects.items()}


def _find_difference(record: Objects, found: Objects) -> str | None:
    for name, parts in record.items():
        if name not in found:
            return name
        for part in sorted(parts - found[name]):
            return f"{name}.{part.partition(':')[0]}"
    return None


async def list_objects(connection: Connection) -> Objects:
    """The tables and types of the database, with their parts."""
    undo = connection.transaction()
    await undo.start()
    try:
        await connection.execute("set local search_path = pg_catalog")
        rows = await connection.fetch(SQL["list_objects"].sql)
    finally:
        await undo.rollback()
    return {row["name"]: frozenset(row["parts"]) for row in rows}


def read_record(revision: str, *, citus: bool = False) -> Objects:
    """The objects of a database at the revision."""
    files = [f"{revision}.txt", f"{revision}_citus.txt"] if citus else [f"{revision}.txt"]
    lines = [
        line.split(" ")
        for file in files
        for line in (scripts.SCRIPTS / "objects" / file).read_text(encoding="utf-8").splitlines()
    ]
    return {name: frozenset(parts) for name, *parts in lines}


def render_record(found: Objects, others: Objects | None = None) -> str:
    """The text of the record; with `others`, of the objects that differ from them."""
    return "".join(
        f"{' '.join([name, *sorted(parts)])}\n"
        for name, parts in sorted(found.items())
        if others is None or others.get(name) != parts
    )
