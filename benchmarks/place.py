"""Where benchmark programs keep data between runs."""

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TextIO

from app.settings import DatabaseSettings, Settings

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".bench"
COLLECTIONS = ROOT.parent / "shared" / "ir"
VECTORS = KEPT / "vectors"
DATA = KEPT / "data"
"""The database of the speed benchmark."""
PREPARED = KEPT / "prepared"
"""A copy of it that was vacuumed and analyzed by hand."""


def bench_settings(data_dir: Path) -> Settings:
    """Settings with an embedded database in the benchmark's own folder."""
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    return Settings(database=DatabaseSettings(data_dir=data_dir))


@contextlib.asynccontextmanager
async def alone(folder: Path = KEPT) -> AsyncIterator[None]:
    """Wait until no other program builds something in the folder, and make other programs wait."""
    with _open_lock(folder) as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield


def _open_lock(folder: Path) -> TextIO:
    folder.mkdir(exist_ok=True)
    return (folder / "building.lock").open("w")
