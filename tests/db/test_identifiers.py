"""Identifiers: of the correct version, and in the order in which they were created."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.db import rows
from app.db.rows import new_id


def test_an_id_is_a_version_7_uuid_of_the_current_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_last", 0)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    made = new_id()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 1_700_000_000_123


def test_ids_of_one_moment_are_in_order_of_creation() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_ids_stay_in_order_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((2_000_000_000_000_000_000, 1_900_000_000_000_000_000, 2_000_000_000_000_000_000))
    monkeypatch.setattr(rows, "_last", 0)
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    made = [new_id() for _ in range(3)]
    assert made == sorted(set(made))


def test_threads_never_create_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def let_others_run(*numbers: int) -> int:
        time.sleep(0)
        return max(numbers)

    monkeypatch.setattr(rows, "max", let_others_run, raising=False)
    monkeypatch.setattr(time, "time_ns", lambda: 2_000_000_000_000_000_000)
    monkeypatch.setattr(rows, "_last", 0)
    with ThreadPoolExecutor(8) as threads:
        made = [i for some in threads.map(lambda _: [new_id() for _ in range(100)], range(8)) for i in some]
    assert len({i.int >> 64 for i in made}) == len(made) == 800
