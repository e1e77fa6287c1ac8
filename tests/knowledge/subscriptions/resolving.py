"""A scripted resolver."""

from collections.abc import Sequence

from app.knowledge.subscriptions.webhooks import Resolve


def resolving(*addresses: str) -> Resolve:
    """A resolver that returns these addresses for every name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve
