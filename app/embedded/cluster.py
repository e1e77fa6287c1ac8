"""The files of the database cluster, created atomically: a partial cluster is never used."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.embedded.address import DATABASE, SUPERUSER
from app.embedded.data_folder import DataFolder
from app.embedded.machine.account import Account
from app.embedded.machine.binaries import build_environment
from app.embedded.secret_file import read_or_create_secret
from app.errors import ConfigurationError

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


def _create(
    folder: DataFolder, password: str, account: Account, binaries: Path, settings: Mapping[str, str]
) -> None:
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
        _sync_folder(folder.root)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_alone(
    sql: str, cluster: Path, account: Account, binaries: Path, settings: Mapping[str, str]
) -> None:
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


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
