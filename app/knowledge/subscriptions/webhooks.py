"""Send webhooks, signed according to the Standard Webhooks specification 1.0, to public addresses only."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx
import orjson

from app.errors import InvalidInput
from app.knowledge.subscriptions.addresses import (
    AddressRefused,
    LookupsBusy,
    Resolve,
    choose_address,
    resolve_host,
)

Admit = Callable[[str], Awaitable[float]]
"""Takes a turn at an IP address; returns the seconds to wait, 0 if the message may be sent now."""

SIGNING_PREFIX = "whsec_"
SECRET_BYTES = (24, 64)
SECONDS = 10.0
"""Time limit from the name lookup to the headers of the response, or to the end of the answer to a challenge. Other
bodies are not read."""
MAX_ECHO = 4096
"""Bytes of the answer to a challenge."""
MAX_RETRY_AFTER = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The outcome of a message at its endpoint; `error` is None if the endpoint accepted it.

    Attributes:
        gone: the endpoint wants no more messages (410).
        own_fault: the endpoint failed, not the message, so other messages would fail too.
        overloaded: nothing was sent, because this service is busy or the address has had enough; it does not count.
        retry_after: seconds from the `Retry-After` header, or until the address gets more.
    """

    error: str | None = None
    gone: bool = False
    own_fault: bool = False
    overloaded: bool = False
    retry_after: float | None = None


def make_secret() -> str:
    """Generate a new secret."""
    return SIGNING_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def read_secret(secret: str) -> bytes:
    """Decode the key of a secret. Raises InvalidInput."""
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX).encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    low, high = SECRET_BYTES
    if not secret.startswith(SIGNING_PREFIX) or not low <= len(key) <= high:
        raise InvalidInput.of("secret", f"must be {SIGNING_PREFIX} and {low} to {high} bytes in base64")
    return key


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Compute the value of `webhook-signature`; `timestamp` is in seconds since 1970."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(read_secret(secret), content, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


class WebhookSender:
    """Posts messages. The name is resolved once and the connection goes to the checked address.

    No second lookup, redirect or proxy from the environment can lead to another address.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        seconds: float = SECONDS,
        resolve: Resolve = resolve_host,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.allow_private = allow_private
        self._seconds = seconds
        self._resolve = resolve
        self._tls = tls

    async def send(
        self,
        url: str,
        secret: str,
        message_id: str,
        body: bytes,
        *,
        echo: str | None = None,
        admit: Admit | None = None,
    ) -> EndpointAnswer:
        """Post one message once; with `echo`, the endpoint has to answer with this text.

        Nothing is sent if `admit` returns seconds to wait for the address, and what `admit` raises is raised. No
        behaviour of the endpoint makes this raise.
        """
        try:
            async with asyncio.timeout(self._seconds):
                target = httpx.URL(url)
                address = await self._choose_address(target)
                if admit is not None and (wait := await admit(address)):
                    return EndpointAnswer(
                        "its address gets no more messages now", overloaded=True, retry_after=wait
                    )
                return await self._send(target, address, secret, message_id, body, echo)
        except TimeoutError:
            return EndpointAnswer(f"no answer within {self._seconds:g} seconds", own_fault=True)
        except LookupsBusy as error:
            return EndpointAnswer(str(error), overloaded=True)
        except AddressRefused as error:
            return EndpointAnswer(str(error), own_fault=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = "its certificate is not valid" if _is_certificate(error) else "the connection failed"
            return EndpointAnswer(reason, own_fault=True)

    async def _choose_address(self, url: httpx.URL) -> str:
        port = url.port or (443 if url.scheme == "https" else 80)
        host = url.raw_host.decode("ascii")
        return await choose_address(host, port, self._resolve, allow_private=self.allow_private)

    async def _send(
        self, url: httpx.URL, address: str, secret: str, message_id: str, body: bytes, echo: str | None
    ) -> EndpointAnswer:
        timestamp = int(time.time())
        if self._tls is None:
            self._tls = httpx.create_ssl_context(trust_env=False)
        async with httpx.AsyncClient(
            verify=self._tls, trust_env=False, follow_redirects=False, timeout=self._seconds
        ) as client:
            request = client.build_request(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers={
                    "host": url.netloc.decode("ascii"),
                    "content-type": "application/json",
                    "user-agent": "knowledge-search-webhooks",
                    "accept-encoding": "identity",
                    "webhook-id": message_id,
                    "webhook-timestamp": str(timestamp),
                    "webhook-signature": sign(secret, message_id, timestamp, body),
                },
                extensions={"sni_hostname": url.raw_host.decode("ascii")},
            )
            answer = await client.send(request, stream=True)
            try:
                said = b"" if echo is None or not answer.is_success else await _read_start(answer)
            finally:
                await answer.aclose()
        if echo is not None and answer.is_success and not is_echo(said, echo):
            return EndpointAnswer("the endpoint did not answer with the challenge")
        return _judge(answer)


def is_echo(said: bytes, challenge: str) -> bool:
    """Whether an endpoint answered with the challenge: as text, or as `{"challenge": "…"}`."""
    text = said.strip()
    if text.startswith(b"{"):
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        text = str(answer.get("challenge")).encode()
    return hmac.compare_digest(text, challenge.encode())


async def _read_start(answer: httpx.Response) -> bytes:
    """The body, as sent, up to MAX_ECHO bytes."""
    said = b""
    async for part in answer.aiter_raw():
        said += part[: MAX_ECHO - len(said)]
        if len(said) >= MAX_ECHO:
            break
    return said


def _judge(answer: httpx.Response) -> EndpointAnswer:
    if answer.is_success:
        return EndpointAnswer()
    status = answer.status_code
    retry_after = None
    if (asked := answer.headers.get("retry-after", "")).isascii() and asked.isdigit():
        retry_after = min(float(asked[:9]), MAX_RETRY_AFTER)
    reason = f"the endpoint answered {status}"
    if answer.is_redirect:
        reason += "; redirects are not followed"
    return EndpointAnswer(
        reason,
        gone=status == 410,
        own_fault=not 400 <= status < 500 or status in (401, 403, 404, 408, 410, 429),
        retry_after=retry_after,
    )


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
