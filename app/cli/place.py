"""What runs on this machine: the private folder in which a service and the commands of its user connect, and the
database that is asked for its slugs.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import app

if TYPE_CHECKING:
    from app.settings import Settings

SERVICE = "kb_service"
"""The same as `app.composition.database.SERVICE`, whose import would take half of the time of a completion."""
PARENT = "/tmp"  # noqa: S108  # the folder in it is private
GROUPS = {"embedding", "next_embedding", "search", "limits", "reranker"}
"""The settings that a search depends on, in addition to the database."""

SUFFIX = ".sock"
_PACKAGE = app.__path__[0]


class Place(NamedTuple):
    """A folder for sockets, the beginning of their names, and the key that a request must contain."""

    folder: str
    name: str
    key: str

    def __repr__(self) -> str:
        return f"Place({self.folder}, {self.name})"

    def own_socket(self) -> str | None:
        """The path for the socket of this process in the folder, which is created; None if it is not private.

        Sockets of processes that have ended are removed.
        """
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError:
            return None
        if not self.is_private():
            return None
        for name in os.listdir(self.folder):
            if not _is_running(name.removesuffix(SUFFIX).rpartition("-")[2]):
                Path(self.folder, name).unlink(missing_ok=True)
        return os.path.join(self.folder, f"{self.name}-{os.getpid()}{SUFFIX}")

    def list_sockets(self) -> list[str]:
        """The sockets of the services that answer for this place; one for each process."""
        if not self.is_private():
            return []
        return [
            os.path.join(self.folder, name)
            for name in sorted(os.listdir(self.folder))
            if name.startswith(f"{self.name}-")
        ]

    def is_private(self) -> bool:
        """Whether only this user can enter the folder: in the parent, another user could have created it."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        own = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0
        return stat.S_ISDIR(found.st_mode) and own


def find_place(settings: Settings) -> Place | None:
    """The place for these settings and this code; None if the embedded database does not exist."""
    try:
        parts = [_stamp_code(), _identify_database(settings)]
    except OSError:
        return None
    shown = settings.model_dump(include=GROUPS)
    key = hashlib.sha256(json.dumps([parts, shown], default=_reveal, sort_keys=True).encode()).hexdigest()
    # The name is visible to the user's other processes, which must not learn the key from it.
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    return Place(os.path.join(PARENT, f"knowledge-{os.geteuid()}"), name, key)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True


def _identify_database(settings: Settings) -> list[Any]:
    """The identity of the database, with a secret that only its users have."""
    if settings.database.url is not None:
        return [settings.database.url.get_secret_value(), os.environ.get("PGPASSWORD")]
    data_dir = settings.database.data_dir.resolve()
    found = data_dir.stat()
    return [str(data_dir), found.st_dev, found.st_ino, (data_dir / f"{SERVICE}-password").read_text()]


def _stamp_code() -> list[Any]:
    """The time and size of every module: a service that was started before an upgrade has other code."""
    found = []
    for folder, folders, names in os.walk(_PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".sql")):
                status = os.stat(os.path.join(folder, name))
                found.append((name, status.st_mtime_ns, status.st_size))
    return [_PACKAGE, hashlib.sha256(repr(found).encode()).hexdigest()]


def _reveal(value: Any) -> Any:
    secret = getattr(value, "get_secret_value", None)
    return secret() if secret is not None else str(value)


SLUGS_SECONDS = 1.0
"""Time limit, because a person waits."""


def find_slugs(incomplete: str) -> list[str]:
    """List the slugs that start with `incomplete`, in order; none if no database runs or answers.

    Pressing the tab key must not connect to arbitrary hosts, so a `.env` in the current folder, which could name any
    host, is not read, and the embedded database is reached only through its socket.
    """
    from app.settings import load_settings

    try:
        settings = load_settings(env_file=None, identity_required=False)
    except Exception:  # print nothing into the line that the user is typing
        return []
    return sorted(slug for slug in list_slugs(settings) or () if slug.startswith(incomplete))


def list_slugs(settings: Settings) -> list[str] | None:
    """The slugs of all tenants; None if no database runs or answers. It starts none."""
    import asyncio

    try:
        database = _running_database(settings)
        return None if database is None else asyncio.run(_fetch(database))
    except Exception:  # of the system, the network, the driver or the database
        return None


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
    return {"host": [state.socket_dir], "port": PORT, "user": SERVICE, "password": password, "database": DATABASE}


async def _fetch(database: Mapping[str, Any]) -> list[str]:
    import asyncio

    import asyncpg

    async with asyncio.timeout(SLUGS_SECONDS):
        connection = await asyncpg.connect(**database)
        try:
            return [row["slug"] for row in await connection.fetch("select slug from tenancy.list_tenants()")]
        finally:
            await connection.close()
