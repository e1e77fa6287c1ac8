"""The private socket at which a service answers the commands of its user."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.cli.place import find_place
from app.settings import Settings
from app.web.insiders import PrivateDoor

log = logging.getLogger("app.cli.serve")


@contextlib.asynccontextmanager
async def serving_commands(settings: Settings, app: FastAPI) -> AsyncIterator[None]:
    """Serve commands until the block ends; where that is impossible, they open the database themselves."""
    place = find_place(settings)
    path = None if place is None else place.own_socket()
    if place is None or path is None:
        log.info("commands are not answered", extra={"reason": "there is no private folder for the socket"})
        yield
        return
    config = uvicorn.Config(
        PrivateDoor(app, place.key),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=HttpToolsProtocol,
        ws="none",
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: HttpToolsProtocol(config, state, app_state={}), path
    )
    os.chmod(path, 0o600)
    try:
        yield
    finally:
        server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        # Commands that read open the database then; others report that the outcome is not known.
        for connection in list(state.connections):
            connection.transport.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)
