"""The HTTP application."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI

from app.api.application import install_routes
from app.auth.tokens import TokenVerifier
from app.composition.identity import open_sign_in, open_verifier
from app.composition.services import Services, open_services
from app.concurrency.part import Part
from app.console.installation import install_console
from app.db.schema.catalog import outdated_revisions
from app.documents.process.parsing import log_missing_protections
from app.hosts import bind_metrics
from app.knowledge.search.service import Rehearsal
from app.mcp.endpoint import PATH as MCP
from app.mcp.endpoint import install_endpoint, open_endpoint
from app.settings import Settings
from app.telemetry.tracing import open_tracing
from app.web.access import Parts
from app.web.layer import HttpLayer, allow_origins
from app.web.login import RemoteLogin
from app.web.monitoring import Observation, serve_metrics
from app.web.openapi import describe, install_docs, install_document
from app.web.problems import install_handlers

DESCRIPTION = """
Store knowledge and search it in plain language. Each search has a semantic leg (vectors) and a keyword leg (BM25),
fuses both, and explains each hit.

Authorise with a token (`knowledge token --tenant demo --role tenant_admin`), then try **POST /knowledge/search**.

A caller sees what it may read. With the header `X-KB-Access: all`, which every path of a tenant takes, its admin sees
and changes the whole tenant.
"""


def create_app(
    settings: Settings,
    services: Services | None = None,
    verifier: TokenVerifier | None = None,
    *,
    part: Part | None = None,
    metrics: socket.socket | None = None,
) -> FastAPI:
    """Create the application for these settings. With `services` and `verifier`, it uses them and opens none.

    `part` is that of one process of several: the first of them runs the worker. `metrics` listens at KB_METRICS_PORT.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(open_tracing())
            ready = services
            if ready is None:
                ready = await stack.enter_async_context(open_services(settings))
            checked = verifier
            if checked is None:
                checked = await stack.enter_async_context(open_verifier(settings))
            server = settings.server
            app.state.parts = Parts(
                ready,
                checked,
                metrics_apart=server.metrics_port is not None,
                login=await stack.enter_async_context(open_login(settings)),
                sign_in=await stack.enter_async_context(open_sign_in(settings)),
                public_url=server.public_url,
                origins=frozenset(server.cors_origins or ()),
                tools=server.mcp_tools,
            )
            app.state.observation = Observation(ready, part=part)
            app.state.draining = app.state.stopping = False
            await asyncio.to_thread(outdated_revisions)
            await stack.enter_async_context(Rehearsal(ready.database, ready.providers).keep_warm())
            await stack.enter_async_context(open_endpoint(app))
            if server.metrics_port is not None:
                listener = metrics or bind_metrics(server.metrics_host, server.metrics_port)
                stack.enter_context(serve_metrics(app.state.observation, listener))
            if part is not None:
                publishing = asyncio.create_task(app.state.observation.publish())
                stack.push_async_callback(_stop, publishing)
            if settings.ingestion.worker and (part is None or part.number == 0):
                checking = asyncio.create_task(log_missing_protections())
                stack.push_async_callback(_stop, checking)
                worker = asyncio.create_task(ready.worker.run())
                stack.push_async_callback(_stop, worker)
            yield
            app.state.draining = app.state.stopping = True

    app = FastAPI(
        title="Knowledge search",
        version=version("knowledge-search"),
        description=DESCRIPTION,
        contact={"name": "The team that runs this service"},
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        lifespan=lifespan,
        # Relative to the document, so that it is right behind any proxy.
        servers=[{"url": "/", "description": "The service that serves this document"}],
        # A redirect behind a TLS proxy would name the wrong scheme, and send the token there.
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    install_routes(app)
    install_endpoint(app)
    install_document(app)
    install_docs(app)
    install_handlers(app)
    install_console(app)
    describe(app)
    app.add_middleware(HttpLayer, max_upload_bytes=settings.ingestion.max_upload_bytes)
    allow_origins(app, settings.server.cors_origins)
    return app


@contextlib.asynccontextmanager
async def open_login(settings: Settings) -> AsyncIterator[RemoteLogin | None]:
    """Open the login of remote MCP clients; None without KB_MCP_ISSUER. Raises ConfigurationError."""
    issuer, public_url = settings.jwt.mcp_issuer, settings.server.public_url
    if issuer is None or public_url is None:
        yield None
        return
    resource = f"{public_url}{MCP}"
    async with open_verifier(settings, resource) as verifier:
        yield RemoteLogin(resource, MCP, issuer, verifier, settings.jwt.mcp_scopes)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
