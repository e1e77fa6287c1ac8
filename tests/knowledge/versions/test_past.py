"""A search that names a past time finds what was valid then: compared with a model, over random histories."""

from __future__ import annotations

import random

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.versions.past import PastHistory


@pytest.mark.parametrize("seed", range(1))
async def test_searches_of_the_past_find_what_was_valid(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await PastHistory(services, tenant, failing_provider, random.Random(seed)).play(25)  # noqa: S311


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
async def test_searches_of_the_past_find_what_was_valid_in_long_histories(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, seed: int
) -> None:
    await PastHistory(services, tenant, failing_provider, random.Random(seed)).play(80)  # noqa: S311
