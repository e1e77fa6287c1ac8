"""A whole tenant as lines of JSON, from which `app.knowledge.transfer.restoration` makes it again.

The first line is the tenant with its settings; then come assets, each followed by its bytes in parts, then entries and
chunks, then what people saved and judged, and a last one without which it is cut short. Keys in every line: `kind`,
and what the table has.
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
"""Bytes of an original in one line."""
RECORDS = (("saved_search", "saved_searches"), ("feedback", "feedback"))


class TenantExport:
    """Reads tenants, of any size, in constant memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lines(
        self, tenant_id: UUID, *, with_vectors: bool = False, actor: str = "service"
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Kind and text of each line, in their order. Raises TenantNotFound, DatabaseUnavailable.

        One transaction reads all: entries as they are when it begins, and every asset that they are chunks of.
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
            # Opened first: what is read after it has the assets of all that it has.
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
            for kind, table in RECORDS:
                async for texts in db.stream_records(session, table, PAGE):
                    for text in texts:
                        yield kind, _line(kind, text)
            yield "end", orjson.dumps({"kind": "end"}) + b"\n"


def _line(kind: str, text: str) -> bytes:
    """The object that Postgres wrote, with its kind in front; read by nobody on the way."""
    return f'{{"kind":"{kind}",{text[1:]}\n'.encode()
