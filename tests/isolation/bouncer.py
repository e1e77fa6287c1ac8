"""PgBouncer in transaction mode in front of the test cluster: every transaction may use another connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from app.composition.database import SERVICE
from tests.fixtures.database.cluster import PASSWORDS, TestDatabase

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
OLDEST_WITH_PREPARED = (1, 21)
"""The first version that keeps prepared statements in transaction mode."""

PORT = 6432
"""Only names the socket file: no TCP port is opened."""

CONFIGURATION = """
[databases]
* = host={server} port={port}

[pgbouncer]
listen_addr =
listen_port = {own_port}
unix_socket_dir = {folder}
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
"""


def version() -> tuple[int, ...]:
    """The version of the program."""
    assert PROGRAM is not None
    told = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in told.split()[1].split(".")[:2])


@contextlib.asynccontextmanager
async def bounced(database: TestDatabase, connections: int, *, prepared: bool = False) -> AsyncIterator[str]:
    """The address of the database for the service's role, through a PgBouncer with this many connections.

    `prepared`: it keeps prepared statements.
    """
    with tempfile.TemporaryDirectory(prefix="bouncer-") as place:
        folder = Path(place)
        process = await asyncio.to_thread(_start, folder, database, connections, prepared)
        try:
            async with asyncio.timeout(60):
                while not (folder / f".s.PGSQL.{PORT}").exists():
                    assert process.poll() is None, "pgbouncer did not start"
                    await asyncio.sleep(0.02)
            login = f"{SERVICE}:{PASSWORDS[SERVICE]}"
            yield f"postgresql://{login}@/{database.name}?host={folder}&port={PORT}"
        finally:
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait)


def _start(folder: Path, database: TestDatabase, connections: int, prepared: bool) -> subprocess.Popen[bytes]:
    assert PROGRAM is not None
    server = database.address
    settings = CONFIGURATION.format(
        server=server.socket_dir, port=server.port, own_port=PORT, folder=folder, connections=connections
    )
    settings += "max_prepared_statements = 1000\n" if prepared else ""
    (folder / "users.txt").write_text(f'"{SERVICE}" "{PASSWORDS[SERVICE]}"\n')
    (folder / "pgbouncer.ini").write_text(settings)
    command, quiet = [PROGRAM, "-q", str(folder / "pgbouncer.ini")], subprocess.DEVNULL
    if os.geteuid() != 0:
        return subprocess.Popen(command, stdout=quiet, stderr=quiet)
    # PgBouncer refuses to run as root, and only its owner may use the server's sockets.
    owner = os.stat(server.socket_dir)
    for path in (folder, *folder.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)
    return subprocess.Popen(
        command, stdout=quiet, stderr=quiet, user=owner.st_uid, group=owner.st_gid, extra_groups=[]
    )
