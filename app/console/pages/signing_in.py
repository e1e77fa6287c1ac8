"""Sign in with a token or a link, or at a provider of OpenID Connect, and sign out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from app.auth.issuing import SignInLink
from app.auth.openid import AccessMissing, ProviderUnreachable, SignInFailed, TooManyGroups
from app.auth.principal import Role
from app.console.installation import HOME
from app.console.rendering import render
from app.console.session import (
    COOKIE,
    LONGEST,
    PLATFORM,
    SIGN_IN,
    authenticate_visitor,
    console_router,
    is_https,
    keep_session,
    local_page,
)
from app.console.visitor import end_everything
from app.errors import Forbidden, Unauthenticated
from app.hosts import is_loopback
from app.knowledge.tenants.keys import PREFIX
from app.web.access import Parts, authenticate, identify
from app.web.problems import is_head

if TYPE_CHECKING:
    from app.auth.sign_in import Completed, ProviderSignIn

PROVIDER = f"{SIGN_IN}/provider"


def describe_token(token: str) -> str:
    """What a good token looks like, and what this one looks like where it differs."""
    if token.startswith(PREFIX) or (token.startswith("eyJ") and token.count(".") == 2):
        return ""
    dots = token.count(".")
    return (
        f"A token is a JWT, which begins with eyJ and has two dots, or an API key, which begins with {PREFIX}. What "
        f"you pasted has {len(token):,} characters and {dots or 'no'} dot{'' if dots == 1 else 's'}."
    )


def sign_in_page(
    request: Request,
    *,
    next: str = HOME,
    status: int = 200,
    refusal: str | None = None,
    shape: str = "",
    failure: str | None = None,
) -> Response:
    """Render the page; `refusal` and `shape` are about a token, `failure` about the provider; `next` is a page of the
    console."""
    parts: Parts = request.app.state.parts
    provider = None
    if parts.sign_in is not None:
        # With the host: the browser must keep the attempt where the provider sends it back to.
        address = f"{parts.sign_in.home}{PROVIDER}?next={quote(next, safe='')}"
        provider = {"name": parts.sign_in.name, "address": address}
    return render(
        request,
        "pages/sign_in.html",
        status=status,
        next=next,
        provider=provider,
        refusal=refusal,
        shape=shape,
        failure=failure,
    )


router = console_router(None)

USED = "this link has been used or has expired; sign in with a token, or start the service again for a new link"


@router.get("/sign-in")
async def show_sign_in(request: Request, next: str = HOME) -> Response:
    """Show the sign-in page."""
    return sign_in_page(request, next=local_page(next))


@router.post("/sign-in")
async def sign_in(request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = HOME) -> Response:
    """Store a valid token in a cookie until the browser closes."""
    token = "".join(token.split()).removeprefix("Bearer")
    page, refusal = PLATFORM, None
    try:
        principal = await identify(request, token)
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
        shape = describe_token(token)
        return sign_in_page(request, next=local_page(next), status=401, refusal=refusal, shape=shape)
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


log = logging.getLogger("app.console")

ATTEMPT = "kb_console_attempt"
"""The cookie with a sign-in that has begun: `Lax`, because the provider's page sends the browser back."""
ATTEMPT_SECONDS = 600

HINT = "kb_console_hint"
"""The cookie with the ID token, with which the provider ends its session."""
SIGN_OUT = "/console/sign-out"

MOST_PARAMETERS = 10


@router.get("/sign-in/provider")
async def begin(request: Request, next: str = "") -> Response:
    """Redirect to the provider. HEAD has no effect."""
    sign_in = _sign_in(request)
    page = local_page(next)
    if is_head(request.scope):
        return sign_in_page(request, next=page)
    try:
        begun = await sign_in.begin(page)
    except SignInFailed as error:
        return _refuse(request, sign_in, error, page)
    response = RedirectResponse(begun.address, 303, {"cache-control": "no-store"})
    response.set_cookie(
        ATTEMPT,
        begun.sealed,
        max_age=ATTEMPT_SECONDS,
        path=SIGN_IN,
        httponly=True,
        samesite="lax",
        secure=_is_https(sign_in),
    )
    return response


@router.get("/sign-in/callback")
async def complete(request: Request) -> Response:
    """Complete the sign-in that this browser began. HEAD has no effect."""
    sign_in = _sign_in(request)
    if is_head(request.scope):
        return sign_in_page(request)
    given = request.query_params.multi_items()
    answer = dict(given) if len({name for name, _ in given}) == len(given) <= MOST_PARAMETERS else {}
    try:
        completed = await sign_in.complete(request.cookies.get(ATTEMPT, ""), answer)
        page = await _find_page(request, completed)
    except SignInFailed as error:
        response = _refuse(request, sign_in, error)
    else:
        # A page, not a redirect: to a request that another site caused, the browser adds no cookie that is `Strict`.
        response = render(request, "pages/onward.html", heading="You are signed in", address=page)
        keep_session(response, completed.token, secure=_is_https(sign_in))
        if completed.hint is not None:
            _keep_hint(response, completed.hint, secure=_is_https(sign_in))
    response.delete_cookie(ATTEMPT, path=SIGN_IN)
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Remove the token; after a sign-in at the provider, end its session too."""
    parts: Parts = request.app.state.parts
    sign_in, token = parts.sign_in, request.cookies.get(COOKIE, "")
    address = None
    if sign_in is not None and sign_in.verifier_of(token) is not None:
        address = await sign_in.end_session(request.cookies.get(HINT, ""), f"{sign_in.home}{SIGN_IN}")
    response: Response = RedirectResponse(SIGN_IN, 303)
    if address is not None:
        # A page, not a redirect: the policy lets no form lead to another site.
        response = render(request, "pages/onward.html", heading="You are signed out", address=address)
    response.delete_cookie(COOKIE, path="/console")
    end_everything(response)
    response.delete_cookie(HINT, path=SIGN_OUT)
    return response


async def _find_page(request: Request, completed: Completed) -> str:
    """The page that the person came for.

    Raises AccessMissing if the tenant does not exist or the token is revoked, and TooManyGroups.
    """
    if len(completed.token) > LONGEST:
        raise TooManyGroups(f"the session has {len(completed.token):,} characters")
    try:
        if completed.principal.has(Role.PLATFORM_ADMIN):
            await authenticate_visitor(request, Role.PLATFORM_ADMIN, completed.token)
            return PLATFORM
        await authenticate_visitor(request, Role.READER, completed.token)
    except (Unauthenticated, Forbidden) as error:
        raise AccessMissing(str(error)) from None
    finally:
        request.state.principal = None  # the page after this one is the first with a visitor
    return local_page(completed.page)


def _refuse(request: Request, sign_in: ProviderSignIn, error: SignInFailed, page: str = "") -> Response:
    log.warning("sign-in at the provider failed", extra={"reason": str(error)})
    return sign_in_page(
        request,
        next=local_page(page),
        status=503 if isinstance(error, ProviderUnreachable) else 401,
        failure=error.advice.format(name=sign_in.name),
    )


def _keep_hint(response: Response, hint: str, *, secure: bool) -> None:
    response.set_cookie(HINT, hint, path=SIGN_OUT, httponly=True, samesite="strict", secure=secure)


def _is_https(sign_in: ProviderSignIn) -> bool:
    return urlsplit(sign_in.home).scheme == "https"


def _sign_in(request: Request) -> ProviderSignIn:
    """The sign-in at the provider. Raises HTTPException with 404 without one."""
    parts: Parts = request.app.state.parts
    if parts.sign_in is None:
        raise HTTPException(404)
    return parts.sign_in
