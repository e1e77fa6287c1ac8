from __future__ import annotations

import json

import pytest

from app.cli.output.text import flatten, make_printable, print_json
from tests.cli.output.screen import open_screen


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
