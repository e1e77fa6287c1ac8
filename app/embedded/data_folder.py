"""The layout of `KB_DATA_DIR`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from app.embedded.provenance import mark_new_folder
from app.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The resolved data directory and the names in it."""

    root: Path

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
            folder.give_to_owner(folder.run)
        except OSError as error:
            raise ConfigurationError(
                "KB_DATA_DIR",
                f"cannot use {root} ({error.strerror})",
                "set it to a writable folder",
            ) from error
        return folder

    @property
    def cluster(self) -> Path:
        return self.root / "postgres"

    @property
    def log(self) -> Path:
        return self.root / "postgres.log"

    @property
    def password(self) -> Path:
        return self.root / "postgres.password"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def start_lock(self) -> Path:
        """Held while one process decides whether a supervisor is needed, and launches it."""
        return self.run / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by all users; the supervisor acquires it exclusively after the last user has released it."""
        return self.run / "users.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor while it or its Postgres runs."""
        return self.run / "supervisor.lock"

    @property
    def supervisor_log(self) -> Path:
        return self.run / "supervisor.log"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    def give_to_owner(self, path: Path) -> None:
        """Give a file created by root to the owner of the data directory, so that a run with sudo locks no one out."""
        if os.geteuid() == 0:
            owner = self.root.stat()
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def open_private(self, path: Path, flags: int) -> int:
        """Open or create `path`, accessible only to its owner, and return the descriptor."""
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.geteuid() == 0:
            owner = self.root.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        return descriptor
