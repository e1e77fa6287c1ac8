"""Export a whole tenant as JSON lines; `app.knowledge.transfer.restoration` reads them.

The first line is the tenant with its settings. Then come assets, each followed by its bytes in parts, then entries and
chunks, then saved searches, feedback, and sources with their items. The last line marks the end; without it the export
is truncated. Each line has the key `kind` and the columns of its table.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from uuid import UUID

import orjson

from app.db.database import Database
from app.db.queries.knowledge import transfer as db
from app.db.queries.tenants import audit
from app.db.queries.tenants.tenants import own_tenant
from app.errors import TenantNotFound

FORMAT = 1
PAGE = 100
PART_BYTES = 1 << 20
"""Most bytes of an original file in one line."""
EXPORTED_RECORDS = (
    ("saved_search", "saved_searches"),
    ("feedback", "feedback"),
    ("source", "sources"),
    ("source_item", "source_items"),
)


class TenantExport:
    """Exports tenants of any size in constant memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lines(
        self, tenant_id: UUID, *, with_vectors: bool = False, actor: str = "service"
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the kind and text of each line in order. Raises TenantNotFound, DatabaseUnavailable.

        One transaction reads everything: the entries as they were at its start, and all assets of their chunks.
        """
        async with self._database.tenant_session(tenant_id, setup=db.EXPORTING) as session:
            tenant = await own_tenant(session)
            if tenant is None:
                raise TenantNotFound("the tenant does not exist")
            detail = {"with_vectors": with_vectors}
            await audit.write_audit(session, actor, "tenant.export", [], detail)
            header = {
                "kind": "tenant",
                "format": FORMAT,
                "slug": tenant.slug,
                "name": tenant.name,
                "settings": tenant.settings,
                "model": {
                    "provider": tenant.provider,
                    "name": tenant.model,
                    "dimensions": tenant.dimensions,
                },
                "vectors": with_vectors,
            }
            yield "tenant", orjson.dumps(header) + b"\n"
            # Opened before the assets are read, so that these include the assets of all its chunks.
            entries = db.stream_entries(session, tenant.model_id, PAGE, with_vectors=with_vectors)
            page: Sequence[str] | None = await anext(entries, None)
            async for asset in db.stream_assets(session):
                yield "asset", _line("asset", asset.line)
                for start in range(0, asset.byte_size, PART_BYTES):
                    part = await db.fetch_original_part(session, asset.id, start, PART_BYTES)
                    line = {"kind": "original", "asset_id": asset.id, "start": start, "data": part}
                    yield "original", orjson.dumps(line) + b"\n"
            while page is not None:
                for text in page:
                    yield "entry", _line("entry", text)
                page = await anext(entries, None)
            for kind, table in EXPORTED_RECORDS:
                async for texts in db.stream_records(session, table, PAGE):
                    for text in texts:
                        yield kind, _line(kind, text)
            yield "end", orjson.dumps({"kind": "end"}) + b"\n"


def _line(kind: str, text: str) -> bytes:
    """Put the kind in front of an object's JSON from Postgres without parsing it."""
    return f'{{"kind":"{kind}",{text[1:]}\n'.encode()
