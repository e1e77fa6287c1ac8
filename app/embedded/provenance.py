"""Whether a data folder was created by this user on this machine.

A repository can contain a folder `.data`, with a database whose triggers run as the service and with a secret that its
author can sign tokens with. Only a folder that this user has created has a marker: a hash of its path with a key that
is kept in the user's state folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from app.embedded.secret_file import read_or_create_secret
from app.errors import ConfigurationError

MARKER = "created-here"
STATE = Path("knowledge-search") / "data-folders-key"
"""In $XDG_STATE_HOME, or ~/.local/state."""


def require_created_here(folder: Path) -> None:
    """Raise ConfigurationError for a folder with files that this user has not created, and for a link."""
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
        if read_marker(path) == (signature := _sign(path)):
            return
        work = path / f".{MARKER}-{os.getpid()}"
        descriptor = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(signature)
            if os.geteuid() == 0:  # for the owner of the folder, as all files in it
                owner = path.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.replace(work, path / MARKER)
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
