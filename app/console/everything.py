"""The act of an admin who sees everything in the tenant: a cookie that belongs to the session's token."""

from __future__ import annotations

import hmac
from hashlib import sha256

from fastapi import Request, Response

EVERYTHING_COOKIE = "kb_console_everything"
PATH = "/console"
PAGE_STATE = "X-Console-Sees"
"""The header with which a page names what it shows, when it requests a part of itself."""


def asks_for_everything(request: Request, token: str) -> bool:
    """Whether the admin with this token has begun to see everything; another session begins without it."""
    return hmac.compare_digest(request.cookies.get(EVERYTHING_COOKIE, "").encode(), _seal(token).encode())


def begin_everything(response: Response, token: str, *, secure: bool) -> None:
    """See everything from the next request on, until the session ends."""
    response.set_cookie(
        EVERYTHING_COOKIE, _seal(token), path=PATH, httponly=True, samesite="strict", secure=secure
    )


def end_everything(response: Response) -> None:
    """See what the token may read, from the next request on."""
    response.delete_cookie(EVERYTHING_COOKIE, path=PATH)


def is_outdated(request: Request, *, sees_all: bool) -> bool:
    """Whether the page around the requested part shows another state: the act was begun or ended in another tab."""
    shown = request.headers.get(PAGE_STATE)
    return shown is not None and (shown == "all") != sees_all


def _seal(token: str) -> str:
    return sha256(b"everything " + token.encode()).hexdigest()
