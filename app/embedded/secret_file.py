"""Random secrets kept in files that only their owner can read."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path


def read_or_create_secret(path: Path) -> str:
    """Return the secret in `path`; the first of all callers makes it (32 random bytes, mode 0600)."""
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        # A link, unlike a rename, never replaces the secret of whoever was faster.
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)
    return _read(path)


def _read(path: Path) -> str:
    secret = path.read_text().strip()
    if not secret:
        raise ValueError(f"{path} is empty; delete it to generate a new secret")
    return secret
