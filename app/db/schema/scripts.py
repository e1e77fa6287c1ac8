"""List the schema's files and revisions, without importing Alembic, which is slower than most commands."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from app.errors import ConfigurationError

_PACKAGE = Path(__file__).resolve().parents[2]
SCRIPTS = next(folder for folder in (_PACKAGE / "alembic", _PACKAGE.parent / "alembic") if (folder / "env.py").exists())
"""The folder of the migrations: in the installed package, or next to it in a checkout."""

REMEDY = "use that version, or export with it and import into an empty database (embedded: another KB_DATA_DIR)"
"""The remedy for a database that another version created."""

_SPAN = re.compile(r"/\* one server \*/(.*?)/\* Citus:(.*?)\*/", re.DOTALL)
"""A text for one server, and in a comment the one for Citus."""


def function_script(file: str, function: str, *, distributed: bool = False) -> str:
    """The statements that create or replace one function.

    They are the function's paragraph, i.e. the lines up to the next empty one. That includes its rights but not its
    triggers. A function below `set local role` in the file is created as that role; the caller opens the transaction.
    """
    before, found, after = re.split(
        rf"^(create or replace function {re.escape(function)}\()", read_file(file, distributed=distributed), flags=re.M
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


def read_file(name: str, *, distributed: bool = False) -> str:
    """The text of a file of `alembic/sql`, for one server or for Citus.

    Where they differ, the file has both: `/* one server */ TEXT /* Citus: OTHER TEXT */`.
    """
    text = (SCRIPTS / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    return _SPAN.sub(r"\2" if distributed else r"\1", text)


def list_files() -> list[str]:
    """The names of the files of `alembic/sql`."""
    return sorted(path.stem for path in (SCRIPTS / "sql").glob("*.sql"))


@cache
def function_files(*, distributed: bool = False) -> Mapping[str, str]:
    """The file of each function in `alembic/sql`, except functions that only the nodes of a cluster have."""
    return {
        name: file
        for file in list_files()
        for name in re.findall(
            r"^create or replace function ([\w.]+)\(", read_file(file, distributed=distributed), re.M
        )
    }


def latest_revision() -> str:
    """The revision that this version of the service requires."""
    return max(known_revisions())


def known_revisions() -> frozenset[str]:
    """All revisions up to and including the latest; a migration's file is named `REVISION_subject.py`."""
    return frozenset(path.name.partition("_")[0] for path in (SCRIPTS / "versions").glob("[0-9]*_*.py"))


def check_revision(revision: str | None, setting: str | None) -> None:
    """Raise ConfigurationError, which names the setting, for a revision that this version does not contain."""
    if revision is not None and revision not in known_revisions():
        raise ConfigurationError(
            setting,
            f"the database is at revision {revision}, which this version (revision {latest_revision()}) does not have:"
            " its data is of another development version or of a newer release",
            REMEDY,
        )
