"""The address of an embedded Postgres, the options of its supervisor, and the state that it publishes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal
from urllib.parse import quote

from app.embedded.data_folder import DataFolder

SUPERUSER = "postgres"
DATABASE = "knowledge"
PORT = 5432
"""Used only in the name of the socket file (`.s.PGSQL.5432`); no TCP port is opened."""


@dataclass(frozen=True, slots=True)
class EmbeddedAddress:
    """The private socket directory of a running embedded Postgres and its superuser's password."""

    socket_dir: str
    password: str = field(repr=False)
    port: int = PORT

    def dsn(self, role: str = SUPERUSER, database: str = DATABASE, password: str | None = None) -> str:
        """Build a `postgresql://` URL for asyncpg, SQLAlchemy or psql.

        Without `password`, the URL contains the superuser's password, so any other role needs one.
        """
        if password is None:
            if role != SUPERUSER:
                raise ValueError(f"the password of role {role!r} is needed: only {SUPERUSER!r} has a default")
            password = self.password
        login = f"{quote(role, safe='')}:{quote(password, safe='')}"
        host = quote(self.socket_dir, safe="/")
        return f"postgresql://{login}@/{quote(database, safe='')}?host={host}&port={self.port}"


@dataclass(frozen=True, slots=True)
class Options:
    """Paths are absolute; `start_timeout` is in seconds."""

    data_dir: str
    binaries: str
    settings: Mapping[str, str]
    start_timeout: float

    @classmethod
    def from_json(cls, text: str) -> Options:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


Phase = Literal["starting", "ready", "stopping", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class State:
    """A snapshot, valid only while the supervisor's lock is held, except for `failed`, which gives the reason."""

    phase: Phase
    socket_dir: str = ""
    supervisor_pid: int = 0
    postmaster_pid: int = 0
    setting: str | None = None
    problem: str = ""
    remedy: str | None = None


def read_state(folder: DataFolder) -> State | None:
    """Return the last state written, or None when there is no readable state."""
    try:
        return State(**json.loads(folder.state.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_state(folder: DataFolder, state: State) -> None:
    """Replace the state atomically."""
    descriptor, name = tempfile.mkstemp(dir=folder.run, prefix=".state-")
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(state), file)
    os.replace(name, folder.state)
    folder.give_to_owner(folder.state)
