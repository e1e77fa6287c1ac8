"""The recogniser keeps to the limits of a file, and no page can stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.documents.ocr.access import RecognitionNeeded, find_recogniser, is_installed, provide
from app.documents.ocr.recogniser import Recogniser
from app.documents.parsed import ParseLimits
from app.errors import UnreadableDocument
from tests.documents.ocr.pages import ListedEngine, found, white


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


TEN = [found(f"line {n}", 0, 30 * n, 200) for n in range(10)]


def make(lines: list[Any], **limits: Any) -> Recogniser:
    clock = Clock()
    engine = ListedEngine(lines, clock.pass_time)
    return Recogniser(engine, lambda data, limits: iter(()), ParseLimits(**limits), clock)


def test_pages_are_recognised_until_the_time_of_the_file_is_used_up() -> None:
    recogniser = make(TEN, ocr_seconds=25)
    pages = [recogniser.recognise(white) for _ in range(4)]
    assert [page and page.complete for page in pages] == [True, True, False, None]
    assert pages[2] is not None
    assert pages[2].text.endswith("line 4")


def test_a_page_has_a_time_of_its_own() -> None:
    recogniser = make(TEN, ocr_seconds=1_000, ocr_page_seconds=3)
    pages = [recogniser.recognise(white) for _ in range(2)]
    assert [page and (page.text.count("line"), page.complete) for page in pages] == [(3, False), (3, False)]


def test_the_number_of_pages_is_limited() -> None:
    recogniser = make(TEN[:1], ocr_pages=2)
    assert [recogniser.recognise(white) is None for _ in range(3)] == [False, False, True]


def test_uncertain_lines_are_dropped() -> None:
    lines = [
        found("certain", 0, 0, 90),
        found("rather certain", 0, 30, 90, score=0.51),
        found("uncertain", 0, 60, 90, score=0.49),
        found("O", 0, 90, 20, score=0.79),
        found("7", 0, 120, 20, score=0.81),
        found(" ", 0, 150, 20),
    ]
    page = make(lines).recognise(white)
    assert page is not None
    assert page.text.split() == ["certain", "rather", "certain", "7"]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a library failed"), OSError()])
def test_a_page_that_fails_does_not_stop_the_others(error: Exception) -> None:
    def fail() -> Any:
        raise error

    recogniser = make(TEN[:1])
    assert recogniser.recognise(fail) is None
    assert recogniser.recognise(white) is not None


def test_the_reason_that_the_drawer_knows_is_passed_on() -> None:
    def refuse() -> Any:
        raise UnreadableDocument("too large")

    with pytest.raises(UnreadableDocument, match="too large"):
        make(TEN).recognise(refuse)


@pytest.fixture
def provided() -> Iterator[Callable[..., None]]:
    yield provide
    provide(None)


def test_the_readers_of_a_process_find_what_was_provided(provided: Callable[..., None]) -> None:
    recogniser = make(TEN)
    provided("here", recogniser)
    assert (find_recogniser(), is_installed()) == (recogniser, True)
    provided("absent")
    assert (find_recogniser(), is_installed()) == (None, False)
    provided("failed")
    assert (find_recogniser(), is_installed()) == (None, True)
    provided("elsewhere")
    with pytest.raises(RecognitionNeeded):
        find_recogniser()
