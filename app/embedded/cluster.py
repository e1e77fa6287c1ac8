"""The files of the database cluster, created atomically, and its configuration for development on a small machine."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from app.embedded.data_folder import DATABASE, PORT, SUPERUSER, DataFolder, read_or_create_secret
from app.embedded.processes import Account, build_environment
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
    # Each look for tables to vacuum takes 0.2 s of a core with these many partitions; Postgres' own default is 1 min.
    "autovacuum_naptime": "2min",
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
            raise ConfigurationError(None, f"the Postgres setting {name} cannot be changed for the embedded database")


def build_arguments(settings: Mapping[str, str], socket_dir: Path) -> list[str]:
    """Return the options of `postgres`: the defaults, overridden by `settings`, and a private socket."""
    chosen = {
        **DEFAULTS,
        # A sixteenth of the machine's memory, between 128 MB and 1 GB; pages take memory only once used.
        "shared_buffers": f"{min(max(psutil.virtual_memory().total // (16 << 20), 128), 1024)}MB",
        **_choose_shared_memory(),
        **settings,
        "listen_addresses": "",
        "password_encryption": "scram-sha-256",
        "port": str(PORT),
        "unix_socket_directories": '"' + str(socket_dir).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
    }
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]


def _choose_shared_memory() -> dict[str, str]:
    # Containers often have 64 MB, which one parallel index build exceeds; files have no such limit.
    try:
        size = os.statvfs("/dev/shm")  # noqa: S108  # only its size is read
    except OSError:
        return {}
    small = size.f_frsize * size.f_blocks < SMALL_SHARED_MEMORY_BYTES
    return {"dynamic_shared_memory_type": "mmap"} if small else {}


STEP_SECONDS = 300.0
"""Time limit for one step of creating a cluster; long enough for a slow disk."""


def ensure_cluster(folder: DataFolder, account: Account, binaries: Path, settings: Mapping[str, str]) -> None:
    """Create the cluster and the superuser's password if they do not exist. Raises ConfigurationError."""
    for unfinished in folder.root.glob(".initdb-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    major = _run([binaries / "postgres", "--version"], account).split()[-1].split(".")[0]
    has_password = folder.password.exists()
    password = read_or_create_secret(folder.password)
    if (folder.cluster / "PG_VERSION").exists():
        found = (folder.cluster / "PG_VERSION").read_text().strip()
        if found != major:
            raise ConfigurationError(
                "KB_DATA_DIR",
                f"{folder.cluster} was created by Postgres {found}, installed is {major}",
                "export with the old version, or set KB_DATA_DIR to a new folder",
            )
        if not has_password:
            sql = f"alter role {SUPERUSER} password '{password}'"
            _run_alone(sql, folder.cluster, account, binaries, settings)
    elif folder.cluster.exists() and any(folder.cluster.iterdir()):
        raise ConfigurationError(
            "KB_DATA_DIR", f"{folder.cluster} has files but no database", "set KB_DATA_DIR to another folder"
        )
    else:
        _create(folder, password, account, binaries, settings)


def _create(folder: DataFolder, password: str, account: Account, binaries: Path, settings: Mapping[str, str]) -> None:
    work = Path(tempfile.mkdtemp(prefix=".initdb-", dir=folder.root))
    try:
        account.own(work)
        password_file = work / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(password + "\n")
        account.own(password_file)
        made = work / "cluster"
        # The builtin provider sorts the same on every system, independent of the C library.
        options: list[str | Path] = [
            *("--username", SUPERUSER, "--pwfile", password_file, "--pgdata", made),
            *("--auth-local", "scram-sha-256", "--auth-host", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale", "C"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            "--no-instructions",
            *(["--no-sync"] if settings.get("fsync") == "off" else []),
        ]
        _run([binaries / "initdb", *options], account)
        _run_alone(f"create database {DATABASE} template template0", made, account, binaries, settings)
        made.rename(folder.cluster)
        descriptor = os.open(folder.root, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_alone(sql: str, cluster: Path, account: Account, binaries: Path, settings: Mapping[str, str]) -> None:
    """Run one statement in single-user mode, before the cluster accepts connections."""
    flags = ["-c", "exit_on_error=on", "-c", "log_min_error_statement=panic"]
    if settings.get("fsync") == "off":
        flags += ["-c", "fsync=off"]
    _run([binaries / "postgres", "--single", "-D", cluster, *flags, "postgres"], account, sql + "\n")


def _run(command: Sequence[str | Path], account: Account, text: str = "") -> str:
    try:
        done = subprocess.run(  # noqa: S603  # Postgres's own program, without a shell
            command,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=build_environment(),
            cwd="/",
            preexec_fn=account.build_preparation(signal.SIGKILL),
            timeout=STEP_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stdout.splitlines() if line.strip()]
        reason = " | ".join(lines[-4:]) or f"status {error.returncode}"
        raise ConfigurationError("KB_DATA_DIR", f"{Path(command[0]).name} failed: {reason}") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError("KB_DATA_DIR", f"{Path(command[0]).name} took too long") from error
    return done.stdout
