"""The state that the supervisor publishes to the users of its data directory."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from typing import Literal

from app.embedded.data_folder import DataFolder

Phase = Literal["starting", "ready", "stopping", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class State:
    """A snapshot, valid only while the supervisor's lock is held, except for `failed`, which gives the reason."""

    phase: Phase
    socket_dir: str = ""
    supervisor_pid: int = 0
    postmaster_pid: int = 0
    setting: str | None = None
    problem: str = ""
    remedy: str | None = None


def read_state(folder: DataFolder) -> State | None:
    """Return the last state written, or None when there is no readable state."""
    try:
        return State(**json.loads(folder.state.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_state(folder: DataFolder, state: State) -> None:
    """Replace the state atomically."""
    descriptor, name = tempfile.mkstemp(dir=folder.run, prefix=".state-")
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(state), file)
    os.replace(name, folder.state)
    folder.give_to_owner(folder.state)
