"""Who looks at a page: the caller's token in a cookie that no script can read, checked like any other token."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from app.api.dependencies import authenticate, authenticate_platform
from app.api.problems import respond_to, respond_to_invalid
from app.auth.principal import Role
from app.console.rendering import render_problem
from app.console.visitor import Visitor, visitor_of
from app.errors import Forbidden, KnowledgeError, Unauthenticated

COOKIE = "kb_console"
HOME = "/console"
SIGN_IN = "/console/sign-in"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def console_router(role: Role | None) -> APIRouter:
    """A router whose every page needs `role`; None for the pages that anyone sees.

    Whoever has no valid token is led to the sign-in page, and back afterwards. Refusals and failures are pages, or
    parts of a page where only a part was asked for, with the same status and text as over the API.
    """

    class ConsoleRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    refuse_other_sites(request)
                    await _admit(request, role)
                    return await handle(request)
                except Unauthenticated:
                    return lead_to_sign_in(request)
                except KnowledgeError as error:
                    return render_problem(request, respond_to(error))
                except RequestValidationError as error:
                    return render_problem(request, respond_to_invalid(error))

            return guarded

    return APIRouter(prefix=HOME, route_class=ConsoleRoute, include_in_schema=False)


async def _admit(request: Request, role: Role | None) -> None:
    if role is None:
        return
    token = request.cookies.get(COOKIE, "")
    if role is Role.PLATFORM_ADMIN:
        await authenticate_platform(request, token)
    else:
        await authenticate(request, role, token)


def refuse_other_sites(request: Request) -> None:
    """Raise Forbidden for a change that a page of another site asks for.

    The cookie is `SameSite=Strict`, so such a request comes without it; this also holds where a browser treats
    neighbouring hosts as one site.
    """
    if request.method in ("GET", "HEAD"):
        return
    origin = request.headers.get("origin")
    same = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if request.headers.get("sec-fetch-site", "same-origin" if same else "") != "same-origin":
        raise Forbidden("this can only be asked for by a page of the console")


def lead_to_sign_in(request: Request) -> Response:
    """To the sign-in page, which leads back here."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.headers.get("hx-request"):
        current = urlsplit(request.headers.get("hx-current-url", ""))
        wanted = current.path + (f"?{current.query}" if current.query else "")
    elif request.method != "GET":
        wanted = HOME
    address = f"{SIGN_IN}?next={quote(wanted, safe='')}"
    if request.headers.get("hx-request"):
        return Response(status_code=200, headers={"HX-Redirect": address})
    return RedirectResponse(address, 303)


def local_page(address: str) -> str:
    """The address, if it is a page of the console; else the first page."""
    parts = urlsplit(address)
    inside = parts.path == HOME or parts.path.startswith(f"{HOME}/")
    if parts.scheme or parts.netloc or not inside or "\\" in address or ".." in parts.path:
        return HOME
    return address


async def _visitor(request: Request) -> Visitor:
    visitor = visitor_of(request)
    if visitor is None:
        raise Unauthenticated("sign in first")
    return visitor


CurrentVisitor = Annotated[Visitor, Depends(_visitor)]
