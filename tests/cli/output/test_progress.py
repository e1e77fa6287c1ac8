from __future__ import annotations

import time

import pytest

from app.cli.output import progress
from app.cli.output.progress import show_progress, show_waiting
from tests.cli.output.screen import open_screen


def test_progress_is_plain_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("files", 3) as report:
        for done in (0, 1, 2, 3, 3):
            report(done)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("files: 3 of 3 (")
    assert captured.err.count("\n") == 1


def test_progress_never_exceeds_its_total(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("lines", 4) as report:
        report(5)
    assert capsys.readouterr().err.startswith("lines: 4 of 4 (")


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    with show_progress("files", 4) as report:
        report(2)
        report(4)
    drawn = screen.getvalue()
    assert "files" in drawn
    assert "4/4" in drawn
    assert "/s" in drawn
    assert "\x1b[" in drawn


def test_progress_is_plain_lines_on_a_dumb_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = open_screen(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with show_progress("files", 1) as report:
        report(1)
    with show_waiting("searching"):
        pass
    assert screen.getvalue().startswith("files: 1 of 1 (")
    assert "\x1b" not in screen.getvalue()


def test_long_work_shows_a_sign_of_life_and_short_work_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = open_screen(monkeypatch)
    with show_waiting("searching"):
        pass
    assert screen.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    with show_waiting("searching"):
        deadline = time.monotonic() + 20
        while "searching" not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "searching" in screen.getvalue()
    # It leaves nothing on the screen: its last action is to erase its line.
    assert screen.getvalue().endswith("\x1b[2K")
