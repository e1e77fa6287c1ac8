"""The application of the HTTP tests, over a database of these tests' own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.main import create_app
from app.settings import Settings
from tests.api.conftest import (
    admin,
    api_database,
    api_services,
    app,
    caller,
    http,
    platform,
    provider,
    reader,
    settings,
    shared_provider,
    stranger,
    tenant,
    verifier,
)
from tests.api.serving import serve

__all__ = [
    "admin",
    "api_database",
    "api_services",
    "app",
    "caller",
    "http",
    "platform",
    "provider",
    "reader",
    "settings",
    "shared_provider",
    "stranger",
    "tenant",
    "verifier",
]


@pytest.fixture(scope="session")
async def address(settings: Settings, api_services: Services, verifier: TokenVerifier) -> AsyncIterator[str]:
    """Where an application of its own listens, with the connections that the service uses."""
    async with serve(create_app(settings, api_services, verifier)) as url:
        yield url
