"""Random secrets, stored in files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def read_or_create_secret(path: Path, size: int = 32) -> str:
    """Return the secret in `path`; the first caller creates it (`size` random bytes, mode 0600).

    Raises OSError, and ValueError for a file without text.
    """
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(size) + "\n")
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        # A link, unlike a rename, never replaces the secret of a faster process.
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
    return _read(path)


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
