"""What the application writes to the log when it starts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from asgi_lifespan import LifespanManager

from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.documents.process import parsing
from app.knowledge.worker import Worker
from app.main import create_app
from app.settings import IngestionSettings, Settings

WARNING = "parser less protected"


class IdleWorker(Worker):
    """Leaves the jobs of other tests alone."""

    def __init__(self) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


async def start(services: Services, verifier: TokenVerifier, *, worker: bool) -> None:
    """Start the application, wait for all that it started, and stop it."""
    settings = Settings(ingestion=IngestionSettings(worker=worker))
    before = asyncio.all_tasks()
    app = create_app(settings, replace(services, worker=IdleWorker()), verifier)
    async with LifespanManager(app):
        checks = [t for t in asyncio.all_tasks() - before if "log_missing" in repr(t.get_coro())]
        assert len(checks) == worker
        await asyncio.gather(*checks)


@pytest.mark.usefixtures("old_kernel")
@pytest.mark.parametrize("worker", [True, False])
async def test_start_names_the_protections_that_the_system_lacks(
    api_services: Services, verifier: TokenVerifier, worker: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await start(api_services, verifier, worker=worker)
    warnings = [record.__dict__["missing"] for record in caplog.records if record.message == WARNING]
    # A service without a worker parses nothing.
    assert len(warnings) == worker
    assert all("Landlock for connections (Linux 6.7)" in missing for missing in warnings)


async def test_start_warns_of_nothing_that_the_system_has(
    api_services: Services, verifier: TokenVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    if missing := await parsing.find_missing_protections():
        pytest.skip(f"this system lacks: {', '.join(missing)}")
    await start(api_services, verifier, worker=True)
    assert WARNING not in caplog.text
