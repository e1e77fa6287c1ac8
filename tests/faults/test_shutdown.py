"""Instances are stopped and replaced under load, and no request fails."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from tests.faults.balancer import balance
from tests.faults.load import calling
from tests.faults.service import DRAIN_SECONDS, served, settings_for
from tests.faults.stopping import expect_clean_log, stop_at_work
from tests.fixtures.http.callers import make_token

CALLERS = 6


@pytest.mark.slow  # the quick run has it in test_processes.py
async def test_a_stopping_instance_is_not_ready_but_finishes_its_requests(
    service_dsn: str, services: Services, tmp_path: Path
) -> None:
    tenant = await services.tenants.create(NewTenant("stopped"), actor="test")
    settings = settings_for(service_dsn, KB_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with served(settings, tmp_path) as service:
        await stop_at_work(service, make_token(tenant.id, Role.CREATOR))


@pytest.mark.slow
async def test_a_rolling_restart_fails_no_request(service_dsn: str, services: Services, tmp_path: Path) -> None:
    tenant = await services.tenants.create(NewTenant("served"), actor="test")
    await services.entries.create(tenant.id, EntryDraft(content="The harbour opens at six"))
    token = make_token(tenant.id, Role.CREATOR)
    settings = settings_for(service_dsn, KB_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with (
        served(settings, tmp_path) as first,
        served(settings, tmp_path) as second,
        balance(first.port, second.port) as (balancer, url),
        contextlib.AsyncExitStack() as later,
    ):
        async with calling(url, token, CALLERS) as callers:
            await callers.wait_for_more()
            await stop_at_work(first, token)
            third = await later.enter_async_context(served(settings, tmp_path))
            balancer.add(third.port)
            await callers.wait_for_more()
            await asyncio.sleep(0.2)
            await stop_at_work(second, token)
            await callers.wait_for_more()
        assert await third.terminate() == 0
    assert callers.failures == []
    assert callers.answered > 100
    print(f"{callers.answered} answers while three instances were started and stopped")  # noqa: T201
    expect_clean_log(third)
