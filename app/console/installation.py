"""Installs the console in the app."""

from collections.abc import Awaitable, Callable
from typing import cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from app.console.pages import (
    access,
    assets,
    audit,
    entries,
    erasures,
    health,
    keys,
    platform,
    receipts,
    saved_searches,
    searching,
    settings,
    signing_in,
    sources,
)
from app.console.rendering import FOLDER, render_problem
from app.console.session import HOME
from app.web.rendering import ReleasedFiles


def install_console(app: FastAPI) -> None:
    """Add the pages under /console and their files. Call it after the error handlers, which it uses."""
    app.mount("/console/files", ReleasedFiles(directory=FOLDER / "static"), name="console-files")
    for router in (
        signing_in.router,
        searching.router,
        entries.writers,
        entries.admins,
        entries.readers,
        assets.writers,
        assets.readers,
        saved_searches.router,
        health.router,
        settings.router,
        sources.router,
        access.router,
        receipts.router,
        erasures.router,
        audit.router,
        keys.router,
        platform.router,
    ):
        app.router.routes += router.routes
    _show_refusals_as_pages(app)


def _show_refusals_as_pages(app: FastAPI) -> None:
    """Render errors outside a page, such as an unknown path or an incomplete form, as a page too."""
    respond = cast(Callable[[Request, Exception], Awaitable[Response]], app.exception_handlers[HTTPException])

    @app.exception_handler(HTTPException)
    async def show(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        if (error.status_code, path) == (404, "/") and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(HOME, 303)
        response = await respond(request, error)
        return render_problem(request, response) if path.startswith(f"{HOME}/") or path == HOME else response
