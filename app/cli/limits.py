"""What the platform lets a tenant use, for `knowledge tenant limits`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.cli.execution import ACTOR, open_directory
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.settings import Settings

WORDS: Mapping[str, int | None] = {"none": 0, "default": None}


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit; None is no limit, and for `used` that it is not counted in the database."""

    allowed: int | None
    default: int | None
    own: int | None
    used: int | None

    def shown(self) -> tuple[int | None, ...]:
        """The columns of a table."""
        return (self.allowed, self.default, self.own, self.used)


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
    from app.knowledge.administration.platform import PlatformService
    from app.knowledge.tenants.limits import NAMES

    async with open_directory(settings) as (directory, database):
        tenant = await directory.find(slug)
        if changes:
            await directory.change_limits(tenant.id, changes, actor=ACTOR)
        context = await directory.context(tenant.id)
        platform = PlatformService(database, directory)
        used = await platform.usage(tenant.id, reader=None if changes else ACTOR)
    return TenantLimits(
        tenant.id,
        tenant.slug,
        {
            name: LimitUse(
                allowed=getattr(context.allowed, name) or None,
                default=getattr(settings.limits, name) or None,
                own=context.settings.limits.get(name),
                used=used.get(name),
            )
            for name in NAMES
        },
    )
