"""The hints for a first search in the tenant `demo`."""

from __future__ import annotations

import shlex
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from app.auth.issuing import VALID_SECONDS, SignInLink
from app.auth.principal import Role
from app.cli.token import DAY, make_token
from app.errors import ConfigurationError
from app.hosts import is_loopback
from app.samples import QUERIES

if TYPE_CHECKING:
    from app.contract.administration import Tenant
    from app.settings import Settings

TOKEN_DAYS = 30


@dataclass(frozen=True, slots=True)
class Welcome:
    """The hints to print, and the link that signs in to the console once, if there is one."""

    text: str
    link: SignInLink | None = None


def welcome(settings: Settings, tenant: Tenant, address: str, *, alone: bool = True) -> Welcome:
    """The hints to print: a link to the console, a token, a search to paste, and the API documentation.

    The link works only where other machines cannot use it, at an address of this machine, and in a service of one
    process (`alone`), whose memory it is in.
    """
    docs = f"{address}/docs documents the API."
    try:
        token = make_token(settings, tenant.id, [Role.TENANT_ADMIN], "demo-user", TOKEN_DAYS * DAY)
    except ConfigurationError as error:
        head = f"\nServing at {address}, tenant {tenant.slug} ({tenant.id}).\n{error}\n"
        return Welcome(f"{head}\nIn a browser: {address}/console to search, with a token. {docs}\n")
    link, console = None, f"In a browser, sign in with the token below: {address}/console"
    if alone and is_loopback(settings.server.host):
        link = SignInLink(token)
        console = (
            f"Open this link in a browser on this machine. It signs in once, within {VALID_SECONDS // 60} minutes:\n\n"
            f"{address}/console/sign-in/once?key={link.issue()}"
        )
    return Welcome(
        f"\nServing at {address}. {console}\n\n"
        f"A token for the tenant {tenant.slug}, valid for {TOKEN_DAYS} days:\n\n{token}\n\n"
        f"A first search, to paste into another terminal:\n\n{curl_line(address, token)}\n\n{docs}\n",
        link,
    )


def curl_line(address: str, token: str) -> str:
    """One line for a POSIX shell."""
    body = orjson.dumps({"query": QUERIES[0].text, "limit": 3}).decode()
    host = urlsplit(address).hostname or ""
    proxied = "http" in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
    parts = [
        "curl",
        "-sS",
        *(["--noproxy", "*"] if proxied else []),
        f"{address}/knowledge/search",
        "-H",
        f"Authorization: Bearer {token}",
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
    ]
    return shlex.join(parts)
