"""The stored settings of a tenant, changed under its lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from app.db.queries.knowledge import versions
from app.db.queries.search import feedback
from app.db.queries.tenants import audit
from app.db.queries.tenants import tenants as db
from app.db.session import TenantSession
from app.errors import TenantNotFound
from app.knowledge.tenants.settings import TenantSettings, TunedWeights

TUNER = "tuning"
"""The actor in the audit trail of weights that the service applies."""


async def hold_tenant(session: TenantSession) -> db.OwnTenant:
    """Lock the tenant and read it. Raises TenantNotFound."""
    await db.hold_tenant(session)
    if (row := await db.own_tenant(session)) is None:
        raise TenantNotFound("the tenant does not exist")
    return row


async def store_settings(
    session: TenantSession, row: db.OwnTenant, given: Mapping[str, Any]
) -> tuple[TenantSettings, list[str]]:
    """Replace all settings, without those that are None; return the settings and the names of those that changed."""
    if isinstance(limits := given.get("limits"), dict):
        given = {**given, "limits": {n: v for n, v in limits.items() if v is not None} or None}
    stored = {name: value for name, value in given.items() if value is not None}
    settings = TenantSettings.from_mapping(stored)
    changed = sorted(n for n in row.settings.keys() | stored if row.settings.get(n) != stored.get(n))
    if changed:
        await db.update_settings(session, orjson.dumps(stored).decode())
    if "keep_versions_days" in changed:
        former = row.settings.get("keep_versions_days", 0)
        await versions.keep(session, former, settings.keep_versions_days)
    if row.settings.get("keep_query_text"):
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
