"""Progress where the output is a terminal, and where it is not."""

from __future__ import annotations

import io

from rich.console import Console

from app.evaluation.progress import ConsoleProgress


def test_plain_output_has_a_line_for_each_step_and_no_escapes() -> None:
    output = io.StringIO()
    with ConsoleProgress(Console(file=output)).step("scifact: embed", 300) as step:
        step.advance(100)
        step.advance(200)
    assert output.getvalue() == "scifact: embed: 300\n"


def test_plain_output_says_how_far_a_slow_step_is() -> None:
    output = io.StringIO()
    clock = iter([0.0, 5.0, 11.0, 12.0])
    reporter = ConsoleProgress(Console(file=output), clock=lambda: next(clock))
    with reporter.step("scifact: embed", 300) as step:
        step.advance(100)
        step.advance(100)
        step.advance(50)
    assert output.getvalue().splitlines() == ["scifact: embed: 300", "scifact: embed: 200/300"]


def test_terminal_output_draws_a_bar() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100)
    with ConsoleProgress(console).step("scifact: embed", 300) as step:
        step.advance(150)
    assert "150/300" in output.getvalue()
    assert "\x1b[" in output.getvalue()
