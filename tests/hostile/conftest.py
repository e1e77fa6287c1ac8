"""The application of the HTTP tests, with a separate database."""

from collections.abc import AsyncIterator

import pytest

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.main import create_app
from app.settings import Settings
from tests.fixtures.http.serving import serve


@pytest.fixture(scope="session")
async def address(settings: Settings, api_services: Services, verifier: TokenVerifier) -> AsyncIterator[str]:
    """The address of a separate application, served with the service's own connection handling."""
    async with serve(create_app(settings, api_services, verifier)) as url:
        yield url
