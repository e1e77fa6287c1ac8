from __future__ import annotations

import io
import sys

import pytest

from app.cli.service import describe_address
from app.cli.terminal import show_progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("files", 3) as report:
        for done in (0, 1, 2, 3, 3):
            report(done)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("files: 3 of 3 (")
    assert captured.err.count("\n") == 1


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress("files", 4) as report:
        report(2)
        report(4)
    drawn = terminal.getvalue()
    assert "files" in drawn
    assert "4/4" in drawn
    assert "/s" in drawn


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
        ("::", "http://[::1]:80"),
        ("knowledge.example", "http://knowledge.example:80"),
    ],
)
def test_address_is_one_that_a_caller_reaches(host: str, address: str) -> None:
    assert describe_address(host, 80) == address
