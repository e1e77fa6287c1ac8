"""When the pages of a file are too slow for its time limit."""

import pytest

from app.documents.patience import Pace
from tests.fixtures.clock import FakeClock

LIMIT = 50.0
"""Seconds for the whole file."""


def open_pages(pages: int, seconds: float, first: float = 0.0) -> int:
    """Open pages that take `seconds` each, the first one `first` more, until they are hopeless; returns how many."""
    clock = FakeClock(0.0)
    pace = Pace(pages, LIMIT, clock)
    for index in range(pages):
        with pace.opening():
            clock.now += seconds + (0 if index else first)
        if pace.is_hopeless(index):
            return index + 1
    return pages


@pytest.mark.parametrize(("pages", "seconds"), [(5_000, 0.021), (5_000, 0.5), (200, 0.55)])
def test_a_file_whose_pages_take_twice_the_time_is_hopeless_after_a_few(pages: int, seconds: float) -> None:
    assert open_pages(pages, seconds) == 21


def test_fewer_pages_are_enough_if_they_took_much_of_the_time() -> None:
    assert open_pages(5_000, 1.0) == 13
    assert open_pages(5_000, 10.0) == 6


@pytest.mark.parametrize(("pages", "seconds"), [(5_000, 0.019), (20, 4.9), (5, 1_000.0)])
def test_a_file_whose_pages_take_less_is_read_on(pages: int, seconds: float) -> None:
    assert open_pages(pages, seconds) == pages


def test_a_slow_first_page_does_not_stand_for_the_others() -> None:
    assert open_pages(2_000, 0.001, first=0.5) == 2_000


def test_layout_is_read_only_while_there_is_time_for_all_pages() -> None:
    clock = FakeClock(0.0)
    pace = Pace(100, LIMIT, clock)
    with_layout = 0
    for index in range(100):
        allowed = pace.allows_layout(index)
        with pace.opening():
            clock.now += 0.1
        if allowed:
            with_layout += 1
            clock.now += 0.9
    assert 15 < with_layout < 40
    assert clock.now < LIMIT
