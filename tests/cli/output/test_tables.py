from __future__ import annotations

import pytest

from app.cli.output.text import align, print_table
from tests.cli.output.screen import open_screen


def test_table_is_aligned_and_complete_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("slug", "uses"), [("acme", 7), ("x" * 200, 12)], right=("uses",))
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading == f"{'SLUG':<200}  USES"
    assert first == f"{'acme':<200}     7"
    assert second == f"{'x' * 200}    12"


def test_table_on_a_terminal_has_styles_and_wraps_long_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
