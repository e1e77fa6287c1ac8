"""Looking at embedded servers from outside: user processes, states, queries."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncpg
import psutil

PROJECT = Path(__file__).resolve().parents[2]
FAST = {"fsync": "off"}


class UserProcess:
    """Another process with a share in a data directory."""

    def __init__(self, data_dir: Path, *, wrapper: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "tests.embedded.user_process", str(data_dir)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )

    def read_dsn(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline().strip()
        assert line, self.read_error()
        return line

    def read_error(self) -> str:
        assert self.process.stderr
        return self.process.stderr.read().strip()

    def leave(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


def read_state(data_dir: Path) -> dict[str, Any]:
    state = json.loads((data_dir / "run" / "state.json").read_text())
    assert isinstance(state, dict)
    return state


def find_postmaster(data_dir: Path) -> psutil.Process:
    return psutil.Process(int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0]))


def find_processes(data_dir: Path) -> list[psutil.Process]:
    """All processes that work in the cluster's folder, whatever they are."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str((data_dir / "postgres").resolve()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def crash(data_dir: Path) -> None:
    """Kill Postgres and its supervisor in a way that leaves every file behind."""
    supervisor = psutil.Process(read_state(data_dir)["supervisor_pid"])
    supervisor.suspend()
    find_postmaster(data_dir).send_signal(signal.SIGKILL)
    supervisor.kill()
    wait_until(lambda: not find_processes(data_dir))
    assert (data_dir / "postgres" / "postmaster.pid").exists()


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def fetch_value(dsn: str, sql: str) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(fetch())
