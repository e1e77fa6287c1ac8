"""Sends the messages of subscriptions, whose secrets are stored encrypted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from app.knowledge.subscriptions.addresses import sending_tenant
from app.knowledge.subscriptions.sealing import SecretSealer, SecretUnreadable
from app.knowledge.subscriptions.webhooks import EndpointAnswer, WebhookSender


class Endpoint(Protocol):
    """Where a message goes, and the secret that signs it, as stored."""

    @property
    def url(self) -> str: ...

    @property
    def secret(self) -> str: ...


class MessageSender:
    """Posts messages for a tenant, signed with their endpoints' secrets."""

    def __init__(self, sender: WebhookSender, sealer: SecretSealer) -> None:
        self._sender = sender
        self._sealer = sealer

    async def send(
        self,
        tenant_id: UUID,
        endpoint: Endpoint,
        message_id: UUID,
        body: bytes,
        *,
        admit: Callable[[UUID, str], Awaitable[float]],
        echo: str | None = None,
    ) -> EndpointAnswer:
        """Post one message once, as `WebhookSender.send`; a secret that no key decrypts is an error of the message.

        Call it in a task of its own: the tenant is part of the task's context. `admit` takes the tenant's turn at an IP
        address. Raises what it raises.
        """
        try:
            secret = self._sealer.open(endpoint.secret)
        except SecretUnreadable as error:
            return EndpointAnswer(str(error))
        sending_tenant.set(tenant_id)
        return await self._sender.send(
            endpoint.url,
            secret,
            f"msg_{message_id.hex}",
            body,
            echo=echo,
            admit=partial(admit, tenant_id),
        )
