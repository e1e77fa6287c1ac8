"""The stored settings of a tenant, changed under its lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from app.db.principals import SERVICE
from app.db.queries.knowledge import versions
from app.db.queries.search import feedback
from app.db.queries.tenants import audit
from app.db.queries.tenants import tenants as db
from app.db.session import TenantSession
from app.errors import InvalidInput, PreconditionFailed, TenantNotFound
from app.knowledge.tenants.limits import Limits, check_limits, require_lower
from app.knowledge.tenants.settings import (
    TenantSettings,
    TunedWeights,
    check_page_limits,
    require_default_within,
    version_of,
)

TUNER = "tuning"
"""The actor in the audit trail of weights that the service applies."""


async def hold_tenant(session: TenantSession) -> db.OwnTenant:
    """Lock the tenant and read it. Raises TenantNotFound."""
    await db.hold_tenant(session)
    if (row := await db.own_tenant(session)) is None:
        raise TenantNotFound("the tenant does not exist")
    return row


def require_version(row: db.OwnTenant, versions: Collection[int] | None) -> None:
    """Raise PreconditionFailed unless the stored settings have one of these versions; None: any."""
    if versions is not None and version_of(TenantSettings.from_mapping(row.settings)) not in versions:
        raise PreconditionFailed("the settings have changed since they were read")


def apply_changes(
    stored: Mapping[str, Any], changes: Mapping[str, Any], *, allowed: Limits, max_limit: int
) -> tuple[Mapping[str, Any], TenantSettings]:
    """Merge changes into stored settings, which stay as they are: the values to store, and the settings they make.

    None resets a setting, and one of the `limits`. `allowed` are the platform's limits, and `max_limit` the service's
    largest number of hits per page. Raises InvalidInput.
    """
    check_page_limits(changes, max_limit)
    if changes.get("tuned") is not None:
        raise InvalidInput.of("tuned", "is set by the service")
    if isinstance(own := changes.get("limits"), dict):
        if not check_limits(own, least=1):
            require_lower(own, allowed)
        changes = {**changes, "limits": {**stored.get("limits", {}), **own}}
    given = _tidy({**stored, **changes})
    settings = TenantSettings.from_mapping(given)
    require_default_within(settings, changes)
    return given, settings


async def store_settings(
    session: TenantSession, row: db.OwnTenant, given: Mapping[str, Any]
) -> tuple[TenantSettings, list[str]]:
    """Replace all settings, without those that are None; return the settings and the names of those that changed."""
    stored = _tidy(given)
    settings = TenantSettings.from_mapping(stored)
    changed = sorted(n for n in row.settings.keys() | stored if row.settings.get(n) != stored.get(n))
    if changed:
        await db.update_settings(session, orjson.dumps(stored).decode())
    if "keep_versions_days" in changed:
        former = row.settings.get("keep_versions_days", 0)
        await versions.keep(session, former, settings.keep_versions_days)
    if row.settings.get("keep_query_text"):
        async with session.acting_as(SERVICE):  # those of all callers
            await feedback.erase_queries(session)
    return settings, changed


async def store_tuned(session: TenantSession, tuned: TunedWeights) -> bool:
    """Apply weights that the service has found, unless the settings on which they depend have changed since.

    Raises TenantNotFound.
    """
    row = await hold_tenant(session)
    settings = TenantSettings.from_mapping(row.settings)
    if not settings.auto_tune or settings.weights is not None or settings.fusion != tuned.fusion:
        return False
    await store_settings(session, row, {**row.settings, "tuned": asdict(tuned)})
    await audit.write_audit(session, TUNER, "settings.tune", [], asdict(tuned))
    return True


def _tidy(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, and the limits among them, that have a value."""
    if isinstance(limits := given.get("limits"), dict):
        given = {**given, "limits": {n: v for n, v in limits.items() if v is not None} or None}
    return {name: value for name, value in given.items() if value is not None}
