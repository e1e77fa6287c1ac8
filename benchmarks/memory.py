"""How much memory processes use."""

import contextlib
from pathlib import Path

import psutil


def resident() -> int:
    """Resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


def postgres_memory(data_dir: Path) -> int | None:
    """Bytes that all processes of the embedded Postgres hold, shared pages counted once; None if unknown."""
    try:
        number = int((data_dir / "postgres" / "postmaster.pid").read_text(encoding="ascii").split()[0])
        server = psutil.Process(number)
        family = [server, *server.children()]
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    held = 0
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            try:
                held += int(process.memory_full_info().pss)
            except (AttributeError, psutil.AccessDenied):  # Linux only, and not for processes of other users
                return None
    return held
