"""Signing in with a token, and out again."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.api.dependencies import Parts, authenticate
from app.auth.principal import Role
from app.console.rendering import render
from app.console.session import COOKIE, HOME, SIGN_IN, console_router, local_page
from app.errors import Forbidden, Unauthenticated

router = console_router(None)

PLATFORM = "/console/platform"
"""Where a platform administrator begins, who sees no tenant's knowledge."""


@router.get("/sign-in")
async def show_sign_in(request: Request, next: str = HOME) -> Response:
    """The page that asks for a token."""
    return render(request, "sign_in.html", next=local_page(next), refusal=None)


@router.post("/sign-in")
async def sign_in(
    request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = HOME
) -> Response:
    """Keep the token in a cookie for as long as the browser is open, if it is valid."""
    token = "".join(token.split()).removeprefix("Bearer")
    parts: Parts = request.app.state.parts
    try:
        principal = await parts.verifier.verify(token)
        page = PLATFORM
        if not principal.has(Role.PLATFORM_ADMIN):
            await authenticate(request, Role.READER, token)
            page = local_page(next)
    except (Unauthenticated, Forbidden) as error:
        return render(request, "sign_in.html", status=401, next=local_page(next), refusal=str(error))
    response = RedirectResponse(page, 303)
    response.set_cookie(
        COOKIE,
        token,
        path=HOME,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/sign-out")
async def sign_out() -> Response:
    """Forget the token."""
    response = RedirectResponse(SIGN_IN, 303)
    response.delete_cookie(COOKIE, path=HOME)
    return response
