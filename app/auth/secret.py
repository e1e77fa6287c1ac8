"""The token secret that an embedded service makes for itself and keeps."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from app.auth.tokens import MIN_SECRET_BYTES
from app.errors import ConfigurationError

SECRET_FILE = "jwt-secret"  # noqa: S105  # a file name


def ensure_secret(data_dir: Path) -> str:
    """The secret in `data_dir`, made at the first call; processes that call together get the same one.

    The file is readable by its owner only. Raises ConfigurationError when it cannot be created or read, or holds
    no usable secret.
    """
    path = data_dir / SECRET_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
        return _read(path)
    except OSError as error:
        raise ConfigurationError(
            "KB_DATA_DIR", f"the token secret {path} cannot be created or read: {error.strerror}"
        ) from None


def _create(path: Path) -> None:
    """Write a complete file under another name and link it into place: readers see all of it or nothing."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{SECRET_FILE}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first: its secret counts
            os.link(draft, path)
    finally:
        os.unlink(draft)


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(file.fileno(), 0o600)
        secret = file.read(4096).strip()
    if len(secret) < MIN_SECRET_BYTES or not secret.isascii():
        raise ConfigurationError(
            "KB_DATA_DIR",
            f"{path} contains no usable secret",
            "remove it; the next start generates a new one",
        )
    return secret
