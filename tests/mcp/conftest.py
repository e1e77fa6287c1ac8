"""The application of the tests of HTTP, and clients of the official kit that talk to it over both transports."""

from __future__ import annotations

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
    work,
)

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
    "work",
]
