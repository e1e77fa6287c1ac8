"""Reading a file of settings, which may lie in a folder that another person filled."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from app.errors import ConfigurationError

MAX_FILE_BYTES = 256 * 1024


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file, as written: `${NAME}` stands for itself.

    Raises FileNotFoundError; ConfigurationError for a file that another user owns or can change, and for one that is
    not readable UTF-8 text.
    """
    from dotenv import dotenv_values  # most commands read no file

    try:
        data = _read_own_file(path)
    except FileNotFoundError:
        raise
    except OSError:
        raise _unreadable(path) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(str(path), f"must have at most {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _unreadable(path) from None
    # Interpolation would write variables of the environment, keys among them, into any setting.
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _read_own_file(path: Path) -> bytes:
    # O_NONBLOCK: a FIFO with this name must not hang the start.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        # The opened file is checked, not the name, which may stand for another file a moment later.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path)
        if status.st_uid not in (os.geteuid(), 0):
            raise ConfigurationError(
                str(path), "is owned by another user, who could redirect keys", "own the file, or remove it"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigurationError(
                str(path), "can be changed by other users, who could redirect keys", f"run: chmod go-w {path}"
            )
        return file.read(MAX_FILE_BYTES + 1)


def _unreadable(path: Path) -> ConfigurationError:
    return ConfigurationError(str(path), "must be a readable UTF-8 text file")
