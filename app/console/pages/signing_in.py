"""Signing in with a token, and out again."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.rendering import render
from app.console.session import COOKIE, HOME, PLATFORM, SIGN_IN, console_router, local_page
from app.errors import Forbidden, Unauthenticated
from app.web.access import Parts, authenticate

router = console_router(None)

LONGEST = 3_900
"""Characters of a token: browsers throw a cookie away whose name and value are longer than 4,096."""


@router.get("/sign-in")
async def show_sign_in(request: Request, next: str = HOME) -> Response:
    """The page that asks for a token."""
    return render(request, "pages/sign_in.html", next=local_page(next), refusal=None)


@router.post("/sign-in")
async def sign_in(
    request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = HOME
) -> Response:
    """Keep the token in a cookie for as long as the browser is open, if it is valid."""
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
        request.state.principal = None  # who has no cookie yet is no visitor, whatever the token says
    if refusal is not None:
        return render(request, "pages/sign_in.html", status=401, next=local_page(next), refusal=refusal)
    response = RedirectResponse(page, 303)
    response.set_cookie(
        COOKIE,
        token,
        path=HOME,
        httponly=True,
        samesite="strict",
        # A proxy that takes TLS off is not seen from here; the browser says where its page is from.
        secure="https" in (request.url.scheme, request.headers.get("origin", "").partition("://")[0]),
    )
    return response


@router.post("/sign-out")
async def sign_out() -> Response:
    """Forget the token."""
    response = RedirectResponse(SIGN_IN, 303)
    response.delete_cookie(COOKIE, path=HOME)
    return response
