"""The audit trail: each change and each administrative read leaves exactly one row."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import get_args

import asyncpg
import pytest
from fastapi import FastAPI

from app.auth.tokens import TokenVerifier
from app.contract.administration import AuditAction, PlatformAction
from app.contract.search import Weights
from app.contract.settings import TunedWeights
from app.embedded import EmbeddedAddress
from app.knowledge.tenants.directory import TUNER, store_tuned
from app.settings import Settings
from tests.api.acts import CHANGES, OTHER_CHANGES, OTHER_READS, PLATFORM_CHANGES, PLATFORM_READS, READS, Act, Failed
from tests.api.endpoints import TABLE as ENDPOINTS
from tests.api.scene import Scene, open_scene
from tests.api.stage import Stage, open_stage

ASKING = {
    "POST /knowledge/search",
    "POST /knowledge/search/batch",
    "POST /knowledge/search/why-not",
    "POST /knowledge/saved-searches/{saved_search_id}/run",
}
"""Requests that only read: nothing changes, and each search has a receipt."""

OVER_HTTP = {**CHANGES, **READS, **PLATFORM_CHANGES, **PLATFORM_READS}


async def _tune(scene: Scene) -> Sequence[str]:
    tuned = TunedWeights("score", Weights(0.4, 0.6), Weights(0.5, 0.5), 60, 0.1, 0.05, 0.15)
    async with scene.stage.services.database.tenant_session(scene.tenant_id) as session:
        assert await store_tuned(session, tuned)
    return []


TUNING = Act("tuned weights", "settings.tune", _tune, actor=TUNER)
ALL_CHANGES: Mapping[str, Act] = {
    **CHANGES, **PLATFORM_CHANGES, **OTHER_CHANGES, TUNING.name: TUNING,
}  # fmt: skip
ALL_READS: Mapping[str, Act] = {**READS, **PLATFORM_READS, **OTHER_READS}
REFUSED_ALONE = {"access"}
"""Actions that always fail: see tests/api/test_audit_refusals.py."""


@pytest.fixture(scope="module")
async def stage(
    cluster: EmbeddedAddress, template: str, settings: Settings, verifier: TokenVerifier
) -> AsyncIterator[Stage]:
    async with open_stage(cluster, template, settings, verifier) as stage:
        yield stage


@pytest.fixture
async def scene(stage: Stage) -> Scene:
    return await open_scene(stage)


def test_every_endpoint_that_changes_or_administers_has_a_row(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    endpoints = {f"{m.upper()} {path}" for path, methods in paths.items() for m in methods}
    noted = {e for e in endpoints if not e.startswith("GET ") or " /admin/" in e} - ASKING
    assert noted == {*OVER_HTTP}
    assert noted <= {*ENDPOINTS}


def test_every_known_action_of_the_trails_is_done_here() -> None:
    """The types of `write_audit` and `note_action` keep the service from writing any other action."""
    done = {act.action for act in (*ALL_CHANGES.values(), *ALL_READS.values())}
    assert done | REFUSED_ALONE == {*get_args(AuditAction), *get_args(PlatformAction)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ALL_CHANGES)
async def test_a_change_and_its_row_are_kept_or_lost_together(name: str, scene: Scene) -> None:
    """A change that fails discards its row, and a row that fails discards its change."""
    act, stage = ALL_CHANGES[name], scene.stage
    await act.prepare(scene)
    tables, trails = await stage.read_tables(), await stage.read_trails()
    async with stage.refusing("rows"):
        with pytest.raises((Failed, asyncpg.RaiseError)):
            await act.do(scene)
    assert (await stage.read_tables(), await stage.read_trails()) == (tables, trails)
    async with stage.refusing("changes"):
        with pytest.raises((Failed, asyncpg.RaiseError)):
            await act.do(scene)
    assert (await stage.read_tables(), await stage.read_trails()) == (tables, trails)
    await expect_one_row(act, scene)
    assert await stage.read_tables() != tables


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ALL_READS)
async def test_an_administrative_read_leaves_exactly_one_row_or_is_not_answered(name: str, scene: Scene) -> None:
    act, stage = ALL_READS[name], scene.stage
    await act.prepare(scene)
    async with stage.refusing("rows"):
        with pytest.raises((Failed, asyncpg.RaiseError)):
            await act.do(scene)
    tables = await stage.read_tables()
    await expect_one_row(act, scene)
    assert await stage.read_tables() == tables


async def expect_one_row(act: Act, scene: Scene) -> None:
    before = await scene.stage.read_trails()
    subjects = await act.do(scene)
    (row,) = await scene.stage.read_trails() - before
    assert row[1:4] == (act.actor, act.action, "done")
    assert sorted(row[4]) == sorted(subjects)
