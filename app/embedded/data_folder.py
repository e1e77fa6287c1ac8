"""The data folder of an embedded Postgres: its layout, secrets and owner, and the state of its supervisor."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from app.errors import ConfigurationError


def read_or_create_secret(path: Path, size: int = 32) -> str:
    """Return the secret in `path`; the first caller creates it (`size` random bytes, mode 0600). Raises OSError, and
    ValueError for a file without text."""
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(size) + "\n")
            file.flush()
            os.fsync(file.fileno())
            give(file.fileno(), path.parent)
        # A link, unlike a rename, never replaces the secret of a faster process.
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
    return _read(path)


def give(file: int | Path, folder: Path) -> None:
    """Give a file created by root to the owner of a folder, so that a run with sudo locks no one out."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.chown(file, owner.st_uid, owner.st_gid, follow_symlinks=isinstance(file, int))


def _replace(path: Path, text: str) -> None:
    """Write a file atomically."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        give(descriptor, path.parent)
    os.replace(name, path)


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor) as file:
        status = os.fstat(descriptor)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        secret = file.read(4096).strip()
    if not secret:
        raise ValueError(f"{path} is empty; delete it to have a new secret made")
    return secret


MARKER = "created-here"
STATE = Path("knowledge-search") / "data-folders-key"
"""In $XDG_STATE_HOME, or ~/.local/state."""


def require_created_here(folder: Path) -> None:
    """Raise ConfigurationError for a folder with files that this user has not created, and for a link.

    A repository can contain a folder `.data`: its database has triggers that would run as the service, and its author
    can sign tokens with its secret. Only a folder that this user has created has a marker: a hash of its path with a
    key from the user's state folder.
    """
    path = folder.expanduser()
    if path.is_symlink() or (_has_files(path) and not is_created_here(path)):
        raise ConfigurationError(
            "KB_DATA_DIR",
            f"{path.absolute()} was not created here by you, and its database and secrets may be another person's",
            f"if you trust it, set KB_DATA_DIR={path.absolute()}; otherwise remove it",
        )


def is_created_here(folder: Path) -> bool:
    """Whether the folder has the marker of this user and its path."""
    path = folder.expanduser().resolve()
    try:
        marker = read_marker(path)
        return marker is not None and hmac.compare_digest(marker, _sign(path))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: the user has no home
        return False


def mark_created_here(folder: Path) -> None:
    """Mark the folder as this user's own; without a place for the key, the folder stays without a marker."""
    path = folder.expanduser().resolve()
    try:
        if read_marker(path) != (signature := _sign(path)):
            _replace(path / MARKER, signature)
    except (OSError, ValueError, RuntimeError):
        return


def mark_new_folder(folder: Path) -> None:
    """Mark a folder without files, which this process is about to fill."""
    if not _has_files(folder):
        mark_created_here(folder)


def read_marker(path: Path) -> str | None:
    """The marker of a folder; None if it has none."""
    try:
        descriptor = os.open(path / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor) as file:
        return file.read(1_000)


def _sign(path: Path) -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    place = (Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()) / STATE
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return hmac.new(read_or_create_secret(place).encode(), os.fsencode(path), hashlib.sha256).hexdigest()


def _has_files(path: Path) -> bool:
    try:
        return any(path.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


class DataFolder:
    """The resolved data directory and the names in it.

    Attributes:
        start_lock: held while one process decides whether a supervisor is needed, and launches it.
        users_lock: shared by all users; the supervisor acquires it exclusively after the last user has released it.
        supervisor_lock: held by the supervisor while it or its Postgres runs.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster = root / "postgres"
        self.log = root / "postgres.log"
        self.password = root / "postgres.password"
        self.run = root / "run"
        self.start_lock = self.run / "start.lock"
        self.users_lock = self.run / "users.lock"
        self.supervisor_lock = self.run / "supervisor.lock"
        self.supervisor_log = self.run / "supervisor.log"
        self.state = self.run / "state.json"

    @classmethod
    def create(cls, path: Path) -> DataFolder:
        """Create the folder if it does not exist. Raises ConfigurationError when that is impossible."""
        root = path.expanduser().resolve()
        folder = cls(root)
        try:
            # Root runs Postgres as another user. That user can traverse this folder but not list it.
            root.mkdir(parents=True, exist_ok=True, mode=0o711 if os.geteuid() == 0 else 0o700)
            mark_new_folder(root)
            folder.run.mkdir(exist_ok=True, mode=0o700)
            give(folder.run, root)
        except OSError as error:
            raise ConfigurationError(
                "KB_DATA_DIR", f"cannot use {root} ({error.strerror})", "set it to a writable folder"
            ) from error
        return folder

    def open_private(self, path: Path, flags: int) -> int:
        """Open or create `path`, accessible only to its owner, and return the descriptor."""
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        give(descriptor, self.root)
        return descriptor


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
        """Build a `postgresql://` URL for asyncpg, SQLAlchemy or psql. All roles but the superuser need a password."""
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
    _replace(folder.state, json.dumps(asdict(state)))
