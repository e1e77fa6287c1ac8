"""The application of the HTTP tests, over a database of these tests' own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.main import create_app
from app.settings import Settings
from tests.fixtures.http.serving import serve


@pytest.fixture(scope="session")
async def address(settings: Settings, api_services: Services, verifier: TokenVerifier) -> AsyncIterator[str]:
    """Where an application of its own listens, with the connections that the service uses."""
    async with serve(create_app(settings, api_services, verifier)) as url:
        yield url
