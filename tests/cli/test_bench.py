from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.main import main


def test_bench_outside_a_checkout_names_the_place_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.cli.eval.CHECKOUT", tmp_path)
    assert main(["bench"]) == 1
    assert "part of the source tree" in capsys.readouterr().err
