"""Installs the console in the app. Its pages are loaded when the first of them is requested."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from app.web.rendering import ReleasedFiles

HOME = "/console"
FILES = Path(__file__).with_name("static")


class Pages(BaseRoute):
    """All pages: most processes that start never show one, and loading them is a tenth of a start."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for a page, known or not."""
        return (Match.FULL if scope["type"] == "http" and is_page(scope["path"]) else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show a page."""
        await (await asyncio.to_thread(load_pages))(scope, receive, send)


@cache
def load_pages() -> Router:
    """The routes of the pages; the first call takes a moment."""
    from app.console.routes import ROUTES

    return Router(ROUTES, redirect_slashes=False)


def is_page(path: str) -> bool:
    """Whether the path belongs to the console."""
    return path == HOME or path.startswith(f"{HOME}/")


def install_console(app: FastAPI) -> None:
    """Add the pages under /console and their files. Call it after the error handlers, which it uses."""
    app.mount(f"{HOME}/files", ReleasedFiles(directory=FILES), name="console-files")
    app.router.routes.append(Pages())
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
        if not is_page(path):
            return response
        from app.console.rendering import render_problem

        return render_problem(request, response)
