"""Queries to try when nothing was found."""

from __future__ import annotations

import re
from uuid import UUID

from app.db import records as db
from app.db.session import Database

WORD = re.compile(r"\w{3,}")
SUGGESTIONS = 5


async def suggest(database: Database, tenant_id: UUID, query: str) -> list[str]:
    """Tags of the tenant, those that resemble the query's words first."""
    words = [word.lower() for word in WORD.findall(query)[:20]]
    async with database.tenant_session(tenant_id) as session:
        return await db.suggest_tags(session, words, SUGGESTIONS)
