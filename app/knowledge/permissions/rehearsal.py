"""Checks of a change that is only tried: whether it would be refused."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from app.db.queries.knowledge import assets, entries
from app.db.session import TenantSession
from app.errors import EntryExists, InvalidInput
from app.knowledge.entries.drafts import EntryDraft, check_draft
from app.knowledge.entries.merging import find_outside, lock_entry, merge
from app.knowledge.ingestion.changes import AssetDraft, find_missing, refuse_twin
from app.knowledge.permissions.changes import Principals


async def check_entry(
    session: TenantSession, entry_id: UUID, draft: EntryDraft, changing: Mapping[UUID, Principals]
) -> None:
    """Raise what the change of an entry's lists would; `changing` has the readers that others would get."""
    valid = check_draft(draft)
    stored = await lock_entry(session, entry_id, None)
    wanted = merge(stored, valid)
    if wanted.readers != stored.readers:
        if (twin := await entries.find_twin(session, entry_id, wanted.readers)) is not None:
            raise EntryExists(f"another entry with these readers has the same identity: {twin}", twin)
        if outside := await find_outside(session, [wanted], changing):
            raise InvalidInput([outside[entry_id]])


async def check_asset(session: TenantSession, asset_id: UUID, draft: AssetDraft) -> None:
    """Raise what the change of an asset's lists would."""
    valid = draft.checked()
    stored = await assets.lock_asset(session, asset_id)
    if stored is None:
        raise await find_missing(session, asset_id)
    wanted = valid.merge(stored)
    if wanted.readers != stored.readers:
        await refuse_twin(session, wanted)
