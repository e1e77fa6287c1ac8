"""Applies the schema: the migrations, and the SQL files that they load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import asyncpg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from alembic import command, op
from app.db.engine import make_engine
from app.errors import ConfigurationError

_PACKAGE = Path(__file__).resolve().parents[2]
SCRIPTS = next(
    folder for folder in (_PACKAGE / "alembic", _PACKAGE.parent / "alembic") if (folder / "env.py").exists()
)
"""The folder of the migrations: in the installed package, or next to it in a checkout."""


def execute_script(script: str) -> None:
    """Run several SQL statements in the migration's transaction (asyncpg's simple query protocol)."""
    connection: Any = op.get_bind().connection.dbapi_connection
    op.execute(text("select 1"))  # opens the transaction: the driver begins it with its first statement
    connection.run_async(lambda driver: driver.execute(script))


def run_file(name: str) -> None:
    """Run a file of `alembic/sql`."""
    execute_script(_read_file(name))


def load_function(file: str, function: str) -> None:
    """Create or replace one function, e.g. `keyword.search`, from its text in a file of `alembic/sql`."""
    execute_script(function_script(file, function))


def function_script(file: str, function: str) -> str:
    """The statements that create or replace one function.

    They are the function's paragraph, i.e. the lines up to the next empty one. That includes its rights but not its
    triggers. A function below `set local role` in the file is created as that role; the caller opens the transaction.
    """
    before, found, after = re.split(
        rf"^(create or replace function {re.escape(function)}\()", _read_file(file), flags=re.M
    )
    script = found + after.partition("\n\n")[0]
    role = re.findall(r"^(?:set local role (\w+)|reset role);", before, re.M)[-1:]
    if role and role[0]:
        schema = function.partition(".")[0]
        script = (
            f"grant create on schema {schema} to {role[0]}; set local role {role[0]};\n{script}\n"
            f"reset role; revoke create on schema {schema} from {role[0]};"
        )
    return script


def _read_file(name: str) -> str:
    return (SCRIPTS / "sql" / f"{name}.sql").read_text(encoding="utf-8")


FUNCTION_FILES = {
    name: path.stem
    for path in sorted((SCRIPTS / "sql").glob("*.sql"))
    for name in re.findall(r"^create or replace function ([\w.]+)\(", path.read_text(encoding="utf-8"), re.M)
}
"""The file of each function in `alembic/sql`."""


def configuration() -> Config:
    """The Alembic configuration of this project."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    return config


def latest_revision() -> str:
    """The revision that this version of the service requires."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    assert head is not None
    return head


def known_revisions() -> frozenset[str]:
    """All revisions up to and including the latest."""
    return frozenset(s.revision for s in ScriptDirectory.from_config(configuration()).walk_revisions())


def check_revision(revision: str | None, setting: str | None) -> None:
    """Raise ConfigurationError, which names the setting, for a revision that this version does not contain."""
    if revision is not None and revision not in known_revisions():
        raise ConfigurationError(
            setting,
            f"the database is at revision {revision}, which this version does not have",
            "use a newer version, or, if the database was made before the first release, create it again (embedded:"
            " delete the folder KB_DATA_DIR)",
        )


async def migrate(
    admin_dsn: str, revision: str = "head", *, down: bool = False, setting: str = "DATABASE_ADMIN_URL"
) -> None:
    """Migrate the database at `admin_dsn` to `revision`, as the owner of the tables.

    Raises ConfigurationError, which names `setting`, for a database at an unknown revision, and
    asyncpg.PostgresError, e.g. InsufficientPrivilegeError.
    """
    config = configuration()
    engine = make_engine(admin_dsn, poolclass=NullPool)

    def apply(connection: Connection) -> None:
        check_revision(MigrationContext.configure(connection).get_current_revision(), setting)
        connection.rollback()  # alembic begins a transaction for each revision only if there is none
        config.attributes["connection"] = connection
        (command.downgrade if down else command.upgrade)(config, revision)

    try:
        async with engine.connect() as connection:
            await connection.run_sync(apply)
            await connection.commit()
    except DBAPIError as error:
        # Alembic's own statements use SQLAlchemy and the scripts do not; both should raise the same kind of error.
        cause = error.orig.__cause__ if error.orig is not None else None
        if isinstance(cause, asyncpg.PostgresError):
            raise cause from error
        raise
    finally:
        await engine.dispose()
