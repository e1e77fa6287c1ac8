"""Whether a service elsewhere can be used with the token of KB_TOKEN."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from app.auth.issuing import read_unverified
from app.auth.jwks import is_secure
from app.cli.doctor.finding import Finding, from_error
from app.cli.remote.exchange import explain
from app.cli.remote.refusals import read_refusal
from app.cli.target import Remote
from app.errors import Forbidden, KnowledgeError, Unauthenticated

ENDING = 15 * 60
"""Seconds before the end of a token from which there is a warning."""
SECONDS = 10.0
SKEW = 5.0
"""Seconds by which two clocks may differ: the service's answer names whole seconds."""


async def check_elsewhere(remote: Remote) -> AsyncIterator[Finding]:
    """The address, the service's state and clock, and the token with what it allows."""
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
    refusal = read_refusal(ready.status_code, ready.content, None)
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
    return Finding(
        "clock", "warning", detail, "synchronise both machines with NTP: tokens end too early or late"
    )


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
        refusal = read_refusal(answer.status_code, answer.content, None)
        yield _refused(refusal, named)
        return
    exp = claims.get("exp")
    left = exp - time.time() if isinstance(exp, int | float) else 0.0
    detail = f"accepted, for {claims.get('sub')}, {named}, valid for {_describe(left)}"
    if left < ENDING:
        yield Finding("token", "warning", detail, "get another one before it ends")
    else:
        yield Finding("token", "ok", detail)


def _refused(refusal: KnowledgeError, named: str) -> Finding:
    if isinstance(refusal, Forbidden):
        return Finding("token", "wrong", f"{refusal}, the token has {named}", "get one with the role reader")
    if isinstance(refusal, Unauthenticated):
        return Finding("token", "wrong", str(refusal), "get another token from the service's operator")
    return from_error("token", refusal)


def _describe(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.1f} hours"
