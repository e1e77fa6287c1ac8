"""Each answer tells what it covers: compared with a model of what is visible, over random histories of a tenant."""

from __future__ import annotations

import random

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.search.history import History


@pytest.mark.parametrize("seed", range(2))
async def test_answers_tell_what_is_so(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await History(services, tenant, failing_provider, random.Random(seed)).play(25)  # noqa: S311


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
async def test_answers_tell_what_is_so_in_long_histories(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await History(services, tenant, failing_provider, random.Random(seed)).play(80)  # noqa: S311
