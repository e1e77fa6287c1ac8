"""When tenants were last written to, in one process and in several."""

from __future__ import annotations

import time
from uuid import UUID

from app.concurrency.memory import CELLS, SharedMemory
from app.concurrency.part import LastWrites, Part


def test_a_write_is_noted_for_its_tenant() -> None:
    writes, before = LastWrites(), time.monotonic()
    writes.note(UUID(int=5))
    assert before <= writes.at(UUID(int=5)) <= time.monotonic()
    assert writes.at(UUID(int=6)) == 0
    assert writes.at(UUID(int=5 + CELLS)) > 0, "a shared cell errs on the safe side"


def test_processes_see_each_others_writes() -> None:
    memory = SharedMemory(2)
    first, second = [Part(memory, place, place, 2) for place in range(2)]
    first.last_writes().note(UUID(int=7))
    assert second.last_writes().at(UUID(int=7)) > 0
    memory.clear(0)
    assert second.last_writes().at(UUID(int=7)) > 0, "the process may have ended after its write"
