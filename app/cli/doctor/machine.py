"""Checks that need no database: tokens, limits, the parser, disk, sign-in, and a remote service."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx

from app.auth.issuing import read_unverified
from app.auth.jwks import is_secure
from app.cli.doctor.finding import Finding, from_error, size
from app.cli.door import explain, read_refusal
from app.cli.execution import Remote
from app.errors import ConfigurationError, Forbidden, KnowledgeError, Unauthenticated
from app.hosts import is_loopback

if TYPE_CHECKING:
    from app.settings import Settings

LITTLE_DISK = 2 * 1024**3
NO_DISK = 200 * 1024**2


async def check_tokens(settings: Settings) -> AsyncIterator[Finding]:
    """Check how tokens are verified, and whether the issuer's keys can be fetched."""
    jwt = settings.jwt
    if jwt.jwks_url is not None:
        yield await _check_issuer(settings)
        if jwt.audience is None:
            yield Finding(
                "tokens",
                "warning",
                "tokens that the issuer created for other services are accepted too",
                "set JWT_AUDIENCE to the name that your issuer gives this service",
            )
        return
    bound = [f"{name} {value}" for name, value in (("for", jwt.audience), ("by", jwt.issuer)) if value]
    present = [name for name, value in (("JWT_SECRETS", jwt.secrets), ("JWT_SECRET", jwt.secret)) if value]
    if present:
        yield Finding("tokens", "ok", " ".join([f"HS256 with {' and '.join(present)}", *bound]))
    elif settings.database.embedded:
        yield Finding("tokens", "ok", " ".join(["HS256 with the secret kept in KB_DATA_DIR", *bound]))
    else:
        yield Finding(
            "tokens",
            "warning",
            "tokens cannot be verified; `knowledge serve` needs this, a worker does not",
            "set JWT_SECRET or JWT_JWKS_URL",
        )


def check_connection(settings: Settings) -> list[Finding]:
    """Check that connections to databases on other machines verify the server."""
    exposed = [
        name
        for name, url in (
            ("DATABASE_URL", settings.database.url),
            ("DATABASE_ADMIN_URL", settings.database.admin_url),
            ("DATABASE_DIRECT_URL", settings.database.direct_url),
            *(("DATABASE_REPLICA_URLS", url) for url in settings.database.replica_urls[:1]),
        )
        if url is not None and _is_unverified(url.get_secret_value())
    ]
    if not exposed:
        return []
    return [
        Finding(
            "tls",
            "warning",
            f"{' and '.join(exposed)}: the database is on another machine, and its certificate is not verified",
            "add sslmode=verify-full to the address",
        )
    ]


def _is_unverified(url: str) -> bool:
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if query.get("sslmode", os.environ.get("PGSSLMODE")) == "verify-full":
        return False
    hosts = [part.rpartition("@")[2] for part in parts.netloc.split(",")]
    names = [urlsplit(f"//{host}").hostname or query.get("host", "") for host in hosts]
    return not all(name == "" or name.startswith("/") or is_loopback(name) for name in names)


def check_encryption(settings: Settings) -> Finding:
    """Check that webhook secrets are encrypted in the database."""
    if settings.encryption.keys is not None:
        return Finding("webhooks", "ok", "their signing keys are encrypted with KB_ENCRYPTION_KEY")
    if settings.database.embedded:
        return Finding("webhooks", "ok", "their signing keys are encrypted with the key kept in KB_DATA_DIR")
    return Finding(
        "webhooks",
        "warning",
        "their signing keys are stored in plain text",
        "set KB_ENCRYPTION_KEY for the service and its workers",
    )


async def _check_issuer(settings: Settings) -> Finding:
    import httpx

    from app.auth.jwks import JwksCache

    assert settings.jwt.jwks_url is not None
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            keys = JwksCache(settings.jwt.jwks_url, client)
        except KnowledgeError as error:
            return from_error("tokens", error)
        started = time.perf_counter()
        try:
            usable = await keys.refresh()
        finally:
            await keys.close()
    milliseconds = round(1000 * (time.perf_counter() - started))
    if not usable:
        return Finding(
            "tokens",
            "wrong",
            f"JWT_JWKS_URL gave no usable keys within {milliseconds} ms; every request is refused",
            "open the address from this machine; it must return a JSON Web Key Set",
        )
    return Finding("tokens", "ok", f"verified with the keys of JWT_JWKS_URL, fetched in {milliseconds} ms")


def check_limits(settings: Settings) -> Finding:
    """Show the default limits of each tenant."""
    limits = settings.limits
    shown = {
        "requests/min": limits.requests_per_minute,
        "concurrent searches": limits.concurrent_searches,
        "entries": limits.entries,
        "receipts": limits.receipts,
        "tokens/day": limits.embedding_tokens_per_day,
    }
    parts = [f"{value:,} {name}" if value else f"unlimited {name}" for name, value in shown.items()]
    return Finding("limits", "ok", f"each tenant {', '.join(parts)}, {size(limits.bytes)} stored")


async def check_parser() -> Finding:
    """Check which protections against hostile files this system has."""
    from app.documents.process.parsing import find_missing_protections

    if missing := await find_missing_protections():
        return Finding(
            "parser",
            "warning",
            f"files are parsed without: {', '.join(missing)}",
            "run workers on Linux 6.12 or newer; docs/deploy.md describes each protection",
        )
    return Finding("parser", "ok", "files are parsed in a process that can open, start and reach nothing")


def check_disk(settings: Settings) -> Finding:
    """Check the free space for the embedded data, or for unpacking uploads."""
    place = settings.database.data_dir if settings.database.embedded else Path(tempfile.gettempdir())
    existing = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{size(free)} free for {place}"
    if free < NO_DISK:
        return Finding("disk", "wrong", f"{detail}: writes will fail", "free space there, or move KB_DATA_DIR")
    if free < LITTLE_DISK:
        return Finding("disk", "warning", detail, "free space there before it is full")
    return Finding("disk", "ok", detail)


ENDING = 15 * 60
"""Seconds before the end of a token from which there is a warning."""
SECONDS = 10.0
SKEW = 5.0
"""Seconds by which two clocks may differ: the service's answer names whole seconds."""


async def check_elsewhere(remote: Remote) -> AsyncIterator[Finding]:
    """The address, the service's state and clock, and the token with its rights."""
    if not is_secure(remote.url):
        yield Finding(
            "encryption",
            "warning",
            "the token travels unencrypted: KB_URL is http on another machine",
            "use the https:// address of the service",
        )
    headers = {"Authorization": f"Bearer {remote.token}"}
    async with httpx.AsyncClient(base_url=remote.url, headers=headers, timeout=SECONDS) as http:
        started = time.time()
        try:
            ready = await http.get("/readyz")
        except httpx.TransportError as error:
            remedy = "check KB_URL, and that the service runs there"
            yield Finding("service", "wrong", f"no answer from {remote.url}: {explain(error)}", remedy)
            return
        answered = time.time()
        yield _judge_state(remote, ready, answered - started)
        if not ready.is_success:
            return
        yield _compare_clocks(ready, started, answered)
        async for finding in _check_token(remote, http):
            yield finding


def _judge_state(remote: Remote, ready: httpx.Response, seconds: float) -> Finding:
    if ready.is_success:
        return Finding("service", "ok", f"{remote.url} is ready, reached in {round(1000 * seconds)} ms")
    refusal = _read_refusal(ready)
    remedy = "check the path of KB_URL" if urlsplit(remote.url).path else "see the log of the service"
    return Finding("service", "wrong", str(refusal), remedy)


def _compare_clocks(ready: httpx.Response, started: float, answered: float) -> Finding:
    try:
        there = parsedate_to_datetime(ready.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return Finding("clock", "ok", "the answer has no date")
    skew = max(0.0, started - there - 1, there - answered)
    detail = f"the service's clock differs by {skew:.0f} s from this machine's"
    if skew < SKEW:
        return Finding("clock", "ok", detail)
    return Finding("clock", "warning", detail, "synchronise both machines with NTP: tokens end too early or late")


async def _check_token(remote: Remote, http: httpx.AsyncClient) -> AsyncIterator[Finding]:
    try:
        claims = read_unverified(remote.token)
    except Unauthenticated as error:
        yield Finding("token", "wrong", f"KB_TOKEN: {error}", "knowledge token prints a token")
        return
    roles = claims.get("roles")
    named = ", ".join(map(str, roles)) if isinstance(roles, list) and roles else "no role"
    path = "/admin/tenants" if named == "platform_admin" else "/knowledge/tags"
    answer = await http.get(path, params={"limit": 1})
    if not answer.is_success:
        refusal = _read_refusal(answer)
        yield _refused(refusal, named)
        return
    exp = claims.get("exp")
    left = exp - time.time() if isinstance(exp, int | float) else 0.0
    detail = f"accepted, for {claims.get('sub')}, {named}, valid for {_describe(left)}"
    if left < ENDING:
        yield Finding("token", "warning", detail, "get another one before it ends")
    else:
        yield Finding("token", "ok", detail)


def _read_refusal(answer: httpx.Response) -> KnowledgeError:
    from knowledge_client.errors import read_problem
    from knowledge_client.transport import Response

    return read_refusal(read_problem(Response(answer.status_code, (), answer.content)), elsewhere=True)


def _refused(refusal: KnowledgeError, named: str) -> Finding:
    if isinstance(refusal, Forbidden):
        return Finding("token", "wrong", f"{refusal}, the token has {named}", "get one with the role reader")
    if isinstance(refusal, Unauthenticated):
        return Finding("token", "wrong", str(refusal), "get another token from the service's operator")
    return from_error("token", refusal)


def _describe(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.1f} hours"


async def check_sign_in(settings: Settings) -> AsyncIterator[Finding]:
    """Fetch the provider's document and keys, and measure the time; nothing without KB_OIDC_ISSUER."""
    oidc = settings.oidc
    if oidc.issuer is None:
        return
    import httpx

    from app.auth.jwks import is_secure
    from app.auth.openid import Provider, ProviderUnreachable

    home = settings.server.public_url or ""
    if home and not is_secure(home):
        yield Finding(
            "sign-in",
            "warning",
            "codes and cookies travel unencrypted: KB_PUBLIC_URL is http on another machine",
            "put a proxy with TLS in front of the service, and set KB_PUBLIC_URL to its https:// address",
        )
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            provider = Provider(oidc.issuer, client, origins=oidc.origins)
        except ConfigurationError as error:
            yield from_error("sign-in", error)
            return
        started = time.perf_counter()
        try:
            usable = await provider.has_keys()
        except ProviderUnreachable as error:
            yield Finding(
                "sign-in",
                "wrong",
                f"{error}; people can only sign in with a token",
                "open KB_OIDC_ISSUER/.well-known/openid-configuration from this machine",
            )
            return
        finally:
            await provider.close()
    milliseconds = round(1000 * (time.perf_counter() - started))
    if usable:
        yield Finding("sign-in", "ok", f"document and keys of KB_OIDC_ISSUER, fetched in {milliseconds} ms")
    else:
        yield Finding(
            "sign-in",
            "wrong",
            "the provider's keys cannot be fetched; people can only sign in with a token",
            "open the jwks_uri of the provider's document; it must return a JSON Web Key Set",
        )
