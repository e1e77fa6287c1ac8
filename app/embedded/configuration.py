"""Configuration of the embedded Postgres, for development on a small machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from app.embedded.address import PORT
from app.errors import ConfigurationError

# Error messages quote values and statements, so they are not logged; the client receives them anyway.
QUIET_LOG = {
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_min_messages": "log",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_statement": "none",
    "log_timezone": "UTC",
}

DEFAULTS = {
    **QUIET_LOG,
    "jit": "off",
    "maintenance_work_mem": "256MB",
    "max_connections": "100",
    "max_wal_size": "1GB",
    "timezone": "UTC",
}

RESERVED = {
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "logging_collector",
    "password_encryption",
    "port",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
}

SMALL_SHARED_MEMORY_BYTES = 512 * 1024 * 1024


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a malformed name, and for a setting that keeps the server private."""
    for name in settings:
        if not re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", name):
            raise ConfigurationError(None, f"{name!r} is not the lowercase name of a Postgres setting")
        if name in RESERVED:
            raise ConfigurationError(
                None, f"the Postgres setting {name} cannot be changed for the embedded database"
            )


def build_arguments(settings: Mapping[str, str], socket_dir: Path) -> list[str]:
    """Return the options of `postgres`: the defaults, overridden by `settings`, and a private socket."""
    import psutil  # only the supervisor needs it; commands that join a server do not

    chosen = {
        **DEFAULTS,
        "shared_buffers": _choose_buffers(psutil.virtual_memory().total),
        **_choose_shared_memory(),
        **settings,
        "listen_addresses": "",
        "password_encryption": "scram-sha-256",
        "port": str(PORT),
        "unix_socket_directories": _quote_path(socket_dir),
        "unix_socket_permissions": "0700",
    }
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]


def _choose_buffers(memory: int) -> str:
    """A sixteenth of the machine's memory (bytes), between 128 MB and 1 GB; pages take memory only once used."""
    megabytes = memory // (16 * 1024 * 1024)
    return f"{min(max(megabytes, 128), 1024)}MB"


def _choose_shared_memory() -> dict[str, str]:
    # Containers often have 64 MB, which one parallel index build exceeds; files have no such limit.
    try:
        size = os.statvfs("/dev/shm")  # noqa: S108  # only its size is read
    except OSError:
        return {}
    small = size.f_frsize * size.f_blocks < SMALL_SHARED_MEMORY_BYTES
    return {"dynamic_shared_memory_type": "mmap"} if small else {}


def _quote_path(path: Path) -> str:
    return '"' + str(path).replace('"', '""') + '"'
