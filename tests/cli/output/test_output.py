"""Output."""

import json
import time

import pytest

from app.cli.output import progress
from app.cli.output.progress import show_progress, show_waiting
from app.cli.output.text import align, flatten, make_printable, print_json, print_table
from app.errors import TenantNotFound
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


def test_bar_of_work_that_ends_before_its_first_part_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    with pytest.raises(TenantNotFound), show_progress("files", 4):
        raise TenantNotFound
    assert screen.getvalue().endswith("\x1b[2K")


def test_progress_is_plain_lines_on_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with show_progress("files", 1) as report:
        report(1)
    with show_waiting("searching"):
        pass
    assert screen.getvalue().startswith("files: 1 of 1 (")
    assert "\x1b" not in screen.getvalue()


def test_long_work_shows_a_sign_of_life_and_short_work_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_table_is_aligned_and_complete_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("slug", "uses"), [("acme", 7), ("x" * 200, 12)], right=("uses",))
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading == f"{'SLUG':<200}  USES"
    assert first == f"{'acme':<200}     7"
    assert second == f"{'x' * 200}    12"


def test_table_on_a_terminal_has_styles_and_wraps_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = open_screen(monkeypatch)
    print_table(("slug", "name"), [("acme", "[red]" + "x" * 100)])
    drawn = screen.getvalue()
    assert "\x1b[1macme" in drawn
    assert "[red]" in drawn
    assert drawn.count("x") == 100
    assert drawn.count("\n") == 3
    monkeypatch.setenv("TERM", "dumb")
    screen.seek(0)
    screen.truncate()
    print_table(("slug",), [("acme",)])
    assert screen.getvalue().split() == ["SLUG", "acme"]


def test_columns_count_wide_characters_as_two() -> None:
    assert align([["東京", "a"], ["abcd", "b"], ["é", "c"]]) == ["東京  a", "abcd  b", "é     c"]


def test_stored_text_cannot_control_a_terminal() -> None:
    assert make_printable("a\x1b]0;title\x07b\x7f\x9b31m") == "a␛]0;title␇b␡\ufffd31m"
    assert make_printable("user\u202egpj.exe\u2066") == "user\ufffdgpj.exe\ufffd"
    assert flatten("one\n\ttwo\r\nthree") == "one two three"
    assert flatten("abcdef", 4) == "abc…"


def test_json_on_a_terminal_is_the_same_without_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = {"title": "a\x1b]0;\x7f\x9b31m\u202egpj.exe\u2066 é東"}
    print_json(stored)
    assert "\x9b31m\u202e" in capsys.readouterr().out
    screen = open_screen(monkeypatch)
    print_json(stored)
    shown = screen.getvalue()
    assert "".join(shown.split()).isprintable()
    assert "é東" in shown
    assert json.loads(shown) == stored
