"""Restore an asset from its line in an export and the lines with its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from app.db.database import Database
from app.db.queries.knowledge import transfer as db
from app.db.queries.tenants import audit
from app.db.queries.work import jobs as queue
from app.knowledge.queue import JobQueue
from app.knowledge.transfer.exported import ExportedAsset, read_asset, read_part
from app.knowledge.transfer.outcome import REFUSALS, Restored, describe_refusal

STORING = timedelta(minutes=10)


@dataclass(slots=True)
class _Original:
    """An asset whose bytes are still being read."""

    number: int
    asset: ExportedAsset
    data: bytearray


class AssetRestoration:
    """Restores assets one after another; holds the bytes of at most one in memory."""

    def __init__(
        self,
        database: Database,
        jobs: JobQueue,
        tenant_id: UUID,
        actor: str,
        outcome: Restored,
        renamed: dict[str, str],
    ) -> None:
        """Record failures in `outcome`, and in `renamed` the assets that have other ids in this tenant."""
        self._database = database
        self._jobs = jobs
        self._tenant_id = tenant_id
        self._actor = actor
        self._renamed = renamed
        self._original: _Original | None = None
        self.outcome = outcome

    async def begin(self, number: int, given: Mapping[str, Any]) -> None:
        """Process the line of an asset. Raises DatabaseUnavailable, as the other methods do."""
        await self.give_up()
        try:
            asset = read_asset(given)
            async with self._database.tenant_session(self._tenant_id) as session:
                found = await db.find_asset(session, orjson.dumps(asset.columns).decode())
        except REFUSALS as error:
            self.outcome.fail(number, describe_refusal(error))
            return
        if found is not None and found[0] != asset.id:
            self._renamed[str(asset.id)] = str(found[0])
            asset = asset.found_as(found[0])
        if found is None or not found[1]:
            self._original = _Original(number, asset, bytearray())
            await self._finish()

    async def add_part(self, number: int, given: Mapping[str, Any]) -> None:
        """Process a line with some of the asset's bytes."""
        original = self._original
        if original is None:
            return  # the asset is unchanged or was refused
        try:
            part = read_part(given)
            if part.start != len(original.data):
                raise ValueError("a part of the file is missing")
            original.data += part.data
        except (KeyError, TypeError, ValueError) as error:
            self._original = None
            self.outcome.fail(number, describe_refusal(error))
            return
        await self._finish()

    async def _finish(self) -> None:
        """Write the asset if all of its bytes have been read."""
        original = self._original
        if original is None or len(original.data) < original.asset.byte_size:
            return
        self._original = None
        asset = original.asset
        data = bytes(original.data)
        if asset.sha256 != "\\x" + hashlib.sha256(data).hexdigest():
            self.outcome.fail(original.number, "the bytes differ from the exported ones")
            return
        try:
            async with self._database.tenant_session(self._tenant_id, background=STORING) as session:
                await queue.cancel_jobs(session, "ingest_asset", str(asset.id))
                await db.put_asset(session, orjson.dumps(asset.columns).decode(), data)
                await db.drop_chunks(session, asset.id)
                if asset.unfinished:
                    await self._jobs.enqueue(session, "ingest_asset", str(asset.id))
                detail = {"part": "asset", "bytes": len(data)}
                await audit.write_audit(session, self._actor, "tenant.import", [asset.id], detail)
        except REFUSALS as error:
            self.outcome.fail(original.number, describe_refusal(error))
            return
        self.outcome.assets += 1

    async def give_up(self) -> None:
        """Record a failure if the current asset is incomplete: no more bytes will follow."""
        if self._original is not None:
            self.outcome.fail(self._original.number, "the file's bytes are missing")
            self._original = None
