"""The pages for operators, and an environment to run their commands in: two Postgres servers and a folder."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.embedded.processes import find_binaries
from tests.docs.pages import OPERATIONS, Block, find_blocks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "operations"
UNPRIVILEGED = 65534
"""The id of the user without rights that Debian and most other systems have."""

SUDO = """#!/bin/sh
# sudo -u postgres COMMAND…, as in the pages; runs as the owner of the servers of this test.
shift 2
if [ "$(id -u)" = 0 ]; then exec setpriv --reuid={user} --regid=nogroup --clear-groups "$@"; fi
exec "$@"
"""


def read_blocks(page: str) -> list[Block]:
    """The blocks of a page that are run, in order."""
    blocks = find_blocks(f"{OPERATIONS}{page}")
    return [block for block in blocks if block.language in ("sh", "sql") and block.marker != "not run"]


def make_script(blocks: Sequence[Block]) -> str:
    """The blocks as one script for bash that stops at the first failure; SQL goes to psql."""
    parts = ["set -euo pipefail"]
    for block in blocks:
        psql = f"psql --no-psqlrc -q -v ON_ERROR_STOP=1 <<'SQL'\n{block.source}SQL"
        parts += (f"echo '--- {block.place}' >&2", block.source if block.language == "sh" else psql)
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with two servers, and the environment in which the pages' commands reach them."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, script: str, *, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        """Run a script with bash in the folder."""
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


@contextlib.contextmanager
def open_place() -> Iterator[Place]:
    """Start the servers, prepare the first as deploy/roles.sh does, and remove everything afterwards."""
    with tempfile.TemporaryDirectory(prefix="kb-pages-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in ("bin", "servers", "work"):
            (folder / part).mkdir()
        give_away(folder / "servers")
        sudo = folder / "bin" / "sudo"
        sudo.write_text(SUDO.format(user=UNPRIVILEGED), "utf-8")
        sudo.chmod(0o755)
        password = secrets.token_hex(8)
        with (
            start_server(folder / "servers" / "old", password) as port,
            start_server(folder / "servers" / "new", password) as new_port,
        ):
            environment = build_environment(folder, password, port, new_port)
            (folder / "work" / "deploy").symlink_to(ROOT / "deploy")
            yield Place(folder / "work", environment)


def build_environment(folder: Path, password: str, port: int, new_port: int) -> dict[str, str]:
    """An operator's environment: addresses of the servers, passwords, and the settings of the service."""
    address = "postgresql://{}:{}@127.0.0.1:{}/knowledge"
    programs = (folder / "bin", Path(sys.executable).parent, find_binaries())
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
        ports = (free.getsockname()[1], other.getsockname()[1])
    return {
        "PATH": os.pathsep.join([*map(str, programs), "/usr/bin", "/bin"]),
        "HOME": str(folder / "work"),
        "LC_ALL": "C.UTF-8",
        "PGHOST": "127.0.0.1",
        "PGPORT": str(port),
        "PGUSER": "postgres",
        "PGPASSWORD": password,
        "PGDATABASE": "knowledge",
        "PGDATA": str(folder / "servers" / "old"),
        "NEW_PORT": str(new_port),
        "RESTORED": str(folder / "servers" / "restored"),
        "BACKUP_PASSWORD": "backup-password",
        "MIGRATOR_PASSWORD": "migrator-password",
        "SERVICE_PASSWORD": "service-password",
        "DATABASE_URL": address.format("kb_service", "service-password", port),
        "DATABASE_ADMIN_URL": address.format("kb_migrator", "migrator-password", port),
        "JWT_SECRET": "a-secret-of-the-pages-for-operators",
        "EMBEDDING_PROVIDER": "mock",
        "KB_PORT": str(ports[0]),
        "KB_METRICS_PORT": str(ports[1]),
        "KB_DRAIN_SECONDS": "0",
    }


@contextlib.contextmanager
def start_server(data: Path, password: str) -> Iterator[int]:
    """A separate Postgres on a free port of this machine; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    with tempfile.NamedTemporaryFile("w", prefix="kb-password-") as file:
        file.write(password)
        file.flush()
        give_away(Path(file.name))
        run_program("initdb", "-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", file.name)
    options = f"-p {port} -k '' -c listen_addresses=127.0.0.1 -c fsync=off -c dynamic_shared_memory_type=mmap"
    run_program("pg_ctl", "-D", str(data), "-w", "-l", str(data) + ".log", "-o", options, "start")
    try:
        yield port
    finally:
        run_program("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


def run_program(name: str, *arguments: str) -> None:
    """Run a program of Postgres as a user that it accepts."""
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    subprocess.run(
        [str(find_binaries() / name), *arguments],
        user=user,
        cwd="/",
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def give_away(path: Path) -> None:
    """Make the servers' user the owner of the path."""
    if os.geteuid() == 0:
        shutil.chown(path, UNPRIVILEGED)
