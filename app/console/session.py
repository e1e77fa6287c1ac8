"""The session of a visitor: the token in a cookie that no script can read, verified like any other token."""

import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from app.auth.principal import Role
from app.console.installation import HOME
from app.console.rendering import place_above, render, render_problem, section_of
from app.console.visitor import asks_for_everything, is_outdated, visitor_of
from app.errors import Conflict, Forbidden, KnowledgeError, Unauthenticated
from app.web.access import OverviewRefused, Parts, answer, authenticate, authenticate_platform
from app.web.bodies import end_intake
from app.web.problems import forget_frames, refusal_of, respond_to, respond_to_invalid, unexpected_error

log = logging.getLogger("app.console")

COOKIE = "kb_console"
LONGEST = 3_900
"""Maximum length of a token: browsers drop a cookie whose name and value exceed 4,096 characters."""
SIGN_IN = "/console/sign-in"
PLATFORM = "/console/platform"
"""The first page of a platform admin, who cannot see any tenant's knowledge."""

PAGE = re.compile(r"/console(/[A-Za-z0-9-][A-Za-z0-9._-]*)*(\?[!-~]*)?")
"""The address of a page as the console writes it, without characters that a browser would interpret differently."""

FORM = "application/x-www-form-urlencoded"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def console_router(role: Role | None) -> APIRouter:
    """A router whose pages require `role`; None for public pages.

    A visitor without a valid token is redirected to the sign-in page, and back afterwards; submitted data are kept.
    Errors are pages, or parts of a page if only a part was requested, with the same status and text
    as in the API.
    """

    class ConsoleRoute(APIRoute):
        def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
            super().__init__(path, end_intake(endpoint), **options)

        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    refuse_other_sites(request)
                    try:
                        await _admit(request, role)
                    except Unauthenticated:
                        return await ask_to_sign_in(request)
                    if is_outdated(request):
                        if request.headers.get("hx-request"):
                            return Response(status_code=200, headers={"HX-Refresh": "true"})
                        raise Conflict(OUTDATED)
                    return await answer(request, handle)
                except KnowledgeError as raised:
                    error = refusal_of(request, raised)
                    if isinstance(error, Unauthenticated) and error is not raised:
                        return await ask_to_sign_in(request)
                    if isinstance(error, Forbidden) and _begins_elsewhere(request):
                        return RedirectResponse(PLATFORM, 303)
                    if isinstance(error, OverviewRefused):
                        return _offer_everything(request)
                    return render_problem(request, respond_to(error))
                except RequestValidationError as error:
                    forget_frames(error)
                    return render_problem(request, respond_to_invalid(error))
                except HTTPException:
                    raise
                except Exception:
                    log.exception("page failed")
                    return render_problem(request, unexpected_error())

            return guarded

    return APIRouter(prefix=HOME, route_class=ConsoleRoute, include_in_schema=False)


async def _admit(request: Request, role: Role | None) -> None:
    if role is None:
        return
    await authenticate_visitor(request, role, request.cookies.get(COOKIE, ""))


async def authenticate_visitor(request: Request, role: Role, token: str) -> None:
    """Check the cookie's token: the visitor's own, or the token of a session after a sign-in at the provider.

    Raises Unauthenticated and Forbidden.
    """
    parts: Parts = request.app.state.parts
    verifier = None if parts.sign_in is None else parts.sign_in.verifier_of(token)
    if role is Role.PLATFORM_ADMIN:
        await authenticate_platform(request, token, verifier)
    else:
        await authenticate(request, role, token, verifier, asks_all=asks_for_everything(request, token))


OUTDATED = (
    "nothing was changed: since the page with this form was opened, another tab has signed in to another tenant, or has"
    " begun or ended to see everything; open the page again"
)


def _offer_everything(request: Request) -> Response:
    """Explain that the page shows everything in the tenant, and offer to see that."""
    is_read = request.method in ("GET", "HEAD")
    wanted = _address_of(request) if is_read else section_of(request.url.path)
    return render(request, "pages/admin/everything.html", status=403, wanted=local_page(wanted), is_read=is_read)


def _begins_elsewhere(request: Request) -> bool:
    visitor = visitor_of(request)
    is_start = request.method == "GET" and request.url.path == HOME and not request.url.query
    return is_start and visitor is not None and visitor.is_platform


def refuse_other_sites(request: Request) -> None:
    """Raise Forbidden for a change requested by a page of another site.

    The cookie is `SameSite=Strict`, so such a request comes without it; this check also works where a browser treats
    neighbouring hosts as one site.
    """
    if request.method in ("GET", "HEAD"):
        return
    host = request.headers.get("host")
    same = request.headers.get("origin") in (f"http://{host}", f"https://{host}")
    if request.headers.get("sec-fetch-site", "same-origin" if same else "") != "same-origin":
        raise Forbidden("only a page of the console may send this request")


async def ask_to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page, which leads back here; if data were submitted, show that nothing was saved."""
    is_part = bool(request.headers.get("hx-request"))
    if request.method not in ("GET", "HEAD"):
        return await _keep_what_was_sent(request, is_part)
    wanted = _address_of(request)
    if _is_followed_from_elsewhere(request):
        # The browser sends no `Strict` cookie with a link from another site, but it does with requests of this page.
        return render(request, "pages/onward.html", heading="One moment", address=wanted)
    if is_part:
        wanted = _page_around(request) or HOME
    address = f"{SIGN_IN}?next={quote(wanted, safe='')}"
    if is_part:
        return Response(status_code=200, headers={"HX-Redirect": address})
    return RedirectResponse(address, 303)


def keep_session(response: Response, token: str, *, secure: bool) -> None:
    """Keep the token in the cookie until the browser closes."""
    response.set_cookie(COOKIE, token, path=HOME, httponly=True, samesite="strict", secure=secure)


def is_https(request: Request) -> bool:
    """Whether the browser shows the console over https: a proxy that terminates TLS is not visible here, but the
    header of a form names the scheme of its page.
    """
    return "https" in (request.url.scheme, request.headers.get("origin", "").partition("://")[0])


def local_page(address: str) -> str:
    """The address if it is a page of the console, or the first page."""
    return address if PAGE.fullmatch(address) else HOME


async def _keep_what_was_sent(request: Request, is_part: bool) -> Response:
    if is_part:
        return place_above(render(request, "parts/signed_out.html", status=401))
    # Files are not kept: the visitor can choose them again.
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
    fields = (await request.form()).multi_items() if is_form else None
    return render(request, "pages/signed_out.html", status=401, address=_address_of(request), fields=fields)


def _is_followed_from_elsewhere(request: Request) -> bool:
    """Whether a link of another site led here, and the visitor may be signed in."""
    headers = request.headers
    is_elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return is_elsewhere and headers.get("sec-fetch-mode") == "navigate" and COOKIE not in request.cookies


def _address_of(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _page_around(request: Request) -> str | None:
    """The address of the page that requests a part of itself; None if the header has none."""
    try:
        current = urlsplit(request.headers.get("hx-current-url", ""))
    except ValueError:
        return None
    return current.path + (f"?{current.query}" if current.query else "")
