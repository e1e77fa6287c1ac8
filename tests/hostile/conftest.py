"""The application of the HTTP tests, over a database of these tests' own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from app.auth.tokens import TokenVerifier
from app.composition import Services
from app.main import create_app
from app.settings import Settings
from tests.api.callers import Caller
from tests.api.conftest import (
    admin,
    api_database,
    api_services,
    app,
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


@pytest.fixture
async def caller(address: str, admin: Caller) -> AsyncIterator[Caller]:
    """The tenant's admin over a socket."""
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as client:
        yield replace(admin, http=client)
