"""The service on a real port, in a thread with an event loop of its own: blocking callers need one beside them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from uuid import UUID

import uvloop

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.identifiers import new_id
from app.embeddings.provider import EmbeddingProvider
from app.main import create_app
from app.settings import Settings
from tests.api.callers import SECRET, make_token
from tests.api.serving import serve


@dataclass(frozen=True, slots=True)
class RunningService:
    """Where it is, and how to make tenants of it."""

    url: str
    services: Services
    loop: asyncio.AbstractEventLoop

    def new_tenant(self) -> UUID:
        """A tenant without knowledge."""
        creation = self.services.tenants.create(f"t-{new_id().hex}", actor="test")
        return asyncio.run_coroutine_threadsafe(creation, self.loop).result(10).id

    def new_token(self, *roles: Role) -> str:
        """A token for a new tenant, of its admin unless told otherwise."""
        return make_token(self.new_tenant(), *(roles or (Role.TENANT_ADMIN,)))


@contextlib.contextmanager
def run_service(dsn: str, provider: EmbeddingProvider) -> Iterator[RunningService]:
    """Serve the database at `dsn`, with a worker, until left."""
    started: Future[RunningService] = Future()
    stop = asyncio.Event()

    async def main() -> None:
        database = Database(dsn, pool_size=4)
        services = await build_services(database, provider)
        app = create_app(Settings(), services, TokenVerifier(secret=SECRET))
        async with serve(app) as url:
            started.set_result(RunningService(url, services, asyncio.get_running_loop()))
            await stop.wait()
        await services.close()
        await provider.close()
        await database.close()

    def work() -> None:
        try:
            # As `knowledge serve` does. asyncio's own loop would leave Nagle's algorithm on for a listener of
            # `socket.create_server`, at 40 ms a request.
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = Thread(target=work, name="running-service")
    thread.start()
    try:
        running = started.result(60)
        yield running
        running.loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(30)
