"""What the platform lets a tenant use, for `knowledge tenant limits`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.cli.execution import ACTOR, open_tenants
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.knowledge.administration.platform import LimitUse
    from app.settings import Settings

WORDS: Mapping[str, int | None] = {"none": 0, "default": None}


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """All limits of one tenant, by name."""

    id: UUID
    slug: str
    limits: Mapping[str, LimitUse]


def read_changes(given: Iterable[str]) -> dict[str, int | None]:
    """Changes from `name=value` lines, as `TenantDirectory.change_limits` takes them. Raises InvalidInput."""
    changes: dict[str, int | None] = {}
    for text in given:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            raise InvalidInput.of("--set", f"{text!r} is not of the form NAME=VALUE")
        if value in WORDS:
            changes[name] = WORDS[value]
            continue
        try:
            changes[name] = int(value)
        except ValueError:
            raise InvalidInput.of(f"limits.{name}", "must be a whole number, none or default") from None
    return changes


async def change_limits(settings: Settings, slug: str, changes: Mapping[str, int | None]) -> TenantLimits:
    """Make the changes, if there are any, and read what is in force. Raises InvalidInput, TenantNotFound."""
    async with open_tenants(settings) as platform:
        tenant = await platform.tenants.find(slug)
        if changes:
            await platform.tenants.change_limits(tenant.id, changes, actor=ACTOR)
        limits = await platform.service.limits(tenant.id, reader=None if changes else ACTOR)
    return TenantLimits(tenant.id, tenant.slug, limits)
