"""The sign-in page: the provider first, where there is one, and the field for a token."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request, Response

from app.console.rendering import render
from app.console.session import HOME, SIGN_IN
from app.web.access import Parts

PROVIDER = f"{SIGN_IN}/provider"


def sign_in_page(
    request: Request,
    *,
    next: str = HOME,
    status: int = 200,
    refusal: str | None = None,
    failure: str | None = None,
) -> Response:
    """Render the page; `refusal` is about a token, `failure` about the provider, and `next` a page of the console."""
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
        failure=failure,
    )
