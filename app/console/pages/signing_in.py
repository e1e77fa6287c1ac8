"""Signing in with a token or with a link that contains a key."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.issuing import SignInLink, is_loopback
from app.auth.principal import Role
from app.console.parts.sign_in_page import sign_in_page
from app.console.session import (
    COOKIE,
    HOME,
    LONGEST,
    PLATFORM,
    authenticate_visitor,
    console_router,
    is_https,
    keep_session,
    local_page,
)
from app.errors import Forbidden, Unauthenticated
from app.web.access import Parts, authenticate
from app.web.problems import is_head

router = console_router(None)

USED = (
    "this link has been used or has expired; sign in with a token, or start the service again for a new link"
)


@router.get("/sign-in")
async def show_sign_in(request: Request, next: str = HOME) -> Response:
    """Show the sign-in page."""
    return sign_in_page(request, next=local_page(next))


@router.post("/sign-in")
async def sign_in(
    request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = HOME
) -> Response:
    """Store a valid token in a cookie until the browser closes."""
    token = "".join(token.split()).removeprefix("Bearer")
    parts: Parts = request.app.state.parts
    page, refusal = PLATFORM, None
    try:
        principal = await parts.verifier.verify(token)
        if not principal.has(Role.PLATFORM_ADMIN):
            await authenticate(request, Role.READER, token)
            page = local_page(next)
        if len(token) > LONGEST:
            raise Forbidden(f"the token is longer than the {LONGEST:,} characters that a browser keeps")
    except (Unauthenticated, Forbidden) as error:
        refusal = str(error)
    finally:
        request.state.principal = None  # without a cookie there is no visitor, whatever the token contains
    if refusal is not None:
        return sign_in_page(request, next=local_page(next), status=401, refusal=refusal)
    return _admit(request, token, page)


@router.get("/sign-in/once")
async def sign_in_once(request: Request, key: str = "") -> Response:
    """Sign in with the link that `knowledge serve --demo` printed; only a browser on the same machine can.

    HEAD has no effect and does not tell whether the key is valid: previews of links send it.
    """
    if is_head(request.scope):
        return sign_in_page(request)
    link: SignInLink | None = getattr(request.app.state, "sign_in_link", None)
    is_near = request.client is not None and is_loopback(request.client.host)
    token = link.redeem(key) if link is not None and is_near else None
    if token is not None:
        return _admit(request, token, HOME)
    try:  # a browser that opens the link again is already signed in
        await authenticate_visitor(request, Role.READER, request.cookies.get(COOKIE, ""))
    except (Unauthenticated, Forbidden):
        request.state.principal = None
        return sign_in_page(request, status=401, refusal=USED)
    return RedirectResponse(HOME, 303)


def _admit(request: Request, token: str, page: str) -> Response:
    """Redirect to the page, with the token in the cookie."""
    response = RedirectResponse(page, 303)
    keep_session(response, token, secure=is_https(request))
    return response
