"""After every run the index equals the origin, and a run that is killed anywhere loses nothing."""

from __future__ import annotations

import pytest

from app.embedded import EmbeddedAddress
from tests.fixtures.database.cluster import new_database
from tests.knowledge.sources.history import open_history

MOST_STATEMENTS = 70
"""Statements of a run with the ingestion of its files, or a few more."""


async def run_history(cluster: EmbeddedAddress, template: str, seed: int, runs: int) -> int:
    killed = 0
    async with new_database(cluster, template=template) as made, open_history(made, seed) as history:
        for _ in range(runs):
            history.edit()
            if await history.run_and_kill(history.random.randrange(MOST_STATEMENTS)):
                killed += 1
                await history.check_nothing_is_lost()
                if history.random.random() < 0.3:
                    history.edit()
                    killed += await history.run_and_kill(history.random.randrange(MOST_STATEMENTS))
            await history.run_and_check()
    return killed


async def test_runs_that_are_killed_lose_nothing(cluster: EmbeddedAddress, template: str) -> None:
    assert await run_history(cluster, template, seed=7, runs=2) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_runs_that_are_killed_lose_nothing_in_long_histories(
    cluster: EmbeddedAddress, template: str, seed: int
) -> None:
    assert await run_history(cluster, template, seed=seed, runs=15) > 0


@pytest.mark.slow
async def test_a_run_can_be_killed_before_each_of_its_statements(cluster: EmbeddedAddress, template: str) -> None:
    """A run that adds, changes, moves and deletes files: each time with a kill one statement later."""
    async with new_database(cluster, template=template) as made, open_history(made, 1) as history:
        statements, killed = 0, True
        while killed:
            files = history.shelf.files
            files.clear()
            files.update({p: history.new_text() for p in ("one.md", "two.md", "three.md", "a/one.md")})
            await history.run_and_check()
            files["a/two.md"] = files.pop("one.md")
            del files["two.md"]
            files["three.md"] = history.new_text()
            files["b/c/one.md"] = history.new_text()
            killed = await history.run_and_kill(statements)
            await history.check_nothing_is_lost()
            await history.run_and_check()
            statements += 1
        assert statements > 30
