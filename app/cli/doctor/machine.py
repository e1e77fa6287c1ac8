"""Checks that need no database: tokens, limits, the parser's protections, and disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from app.cli.doctor.finding import Finding, from_error, size
from app.errors import KnowledgeError
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
        return Finding(
            "disk", "wrong", f"{detail}: writes will fail", "free space there, or move KB_DATA_DIR"
        )
    if free < LITTLE_DISK:
        return Finding("disk", "warning", detail, "free space there before it is full")
    return Finding("disk", "ok", detail)
