"""Open a tenant's knowledge for a command, and run commands that consist of one call.

A call has arguments and a result in JSON. It is answered by a service elsewhere, by the service that runs here, or
by this process, with the same function.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from app.cli.execution import (
    Local,
    Target,
    find_remote,
    open_service,
    open_tenants,
    read_settings,
    run_async,
    working,
)
from app.cli.local.client import ask_or_open

if TYPE_CHECKING:
    from app.cli.knowledge import Knowledge
    from app.cli.remote.knowledge import RemoteKnowledge
    from app.composition.platform import Platform

Answer = Callable[[Any, Mapping[str, Any]], Awaitable[Any]]
"""A command's function: it takes the opened knowledge and the arguments, which have the tenant."""

Open = Callable[..., contextlib.AbstractAsyncContextManager[Any]]


def call(
    target: Target,
    command: str,
    arguments: Mapping[str, Any],
    answer: Answer,
    *,
    opening: Open = open_service,
    check: Callable[[], object] | None = None,
    doing: str | None = None,
    writes: bool = False,
) -> Any:
    """The result of a command, in JSON. `opening` opens what `answer` needs in this process. Raises KnowledgeError.

    `check` refuses invalid arguments before anything is opened. A service that runs here checks them itself: this
    process then loads no module of the database, so the command stays fast. A command that `writes` is not done again
    after a service has got it and not answered: ServiceUnreachable says that its outcome is not known.
    """
    if isinstance(target, Local):
        settings = target.settings
        asked = {"tenant": target.slug, **arguments}

        async def work() -> Any:
            if check is not None:
                check()
            async with opening(settings) as services:
                return _plain(await answer(services, asked))

        return ask_or_open(settings, command, asked, work, doing=doing, writes=writes)
    remote = target

    async def request() -> Any:
        from app.cli.remote.knowledge import open_remote

        if check is not None:
            check()
        async with open_remote(remote) as knowledge:
            return _plain(await answer(knowledge, {"tenant": "", **arguments}))

    return run_async(request(), doing=doing)


@contextlib.asynccontextmanager
async def open_knowledge(target: Target, *, works: bool = False) -> AsyncIterator[tuple[Knowledge, UUID]]:
    """Open the knowledge of a tenant, whose id is the second part; with `works`, a worker runs in this process.

    A service elsewhere has workers of its own. Raises ConfigurationError and TenantNotFound.
    """
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(target, Local):
            services = await stack.enter_async_context(open_service(target.settings))
            if works:
                await stack.enter_async_context(working(services))
            yield services, (await services.tenants.find(target.slug)).id
            return
        from app.cli.remote.knowledge import open_remote

        knowledge = await stack.enter_async_context(open_remote(target))
        yield knowledge, (await knowledge.tenants.find("")).id


@contextlib.asynccontextmanager
async def open_tenants_of(target: Target) -> AsyncIterator[tuple[Platform | RemoteKnowledge, UUID]]:
    """Open the tenants, and find the target's own, whose id is the second part; no embedding model is loaded.

    Raises ConfigurationError and TenantNotFound.
    """
    if isinstance(target, Local):
        async with open_tenants(target.settings) as platform:
            yield platform, (await platform.tenants.find(target.slug)).id
        return
    from app.cli.remote.knowledge import open_remote

    async with open_remote(target) as knowledge:
        yield knowledge, (await knowledge.tenants.find("")).id


@contextlib.asynccontextmanager
async def open_platform_of() -> AsyncIterator[Platform | RemoteKnowledge]:
    """Open the tenants of this installation or, with KB_URL, of that service. Raises ConfigurationError."""
    if (remote := find_remote()) is not None:
        from app.cli.remote.knowledge import open_remote

        async with open_remote(remote) as knowledge:
            yield knowledge
        return
    async with open_tenants(read_settings()) as platform:
        yield platform


def _plain(result: Any) -> Any:
    """The result as JSON values, as a service that runs here would send it."""
    import orjson

    return orjson.loads(orjson.dumps(result))
