"""Queries to try when nothing was found."""

from __future__ import annotations

import re

from app.db import records as db
from app.db.session import TenantSession

WORD = re.compile(r"\w{3,}")
SUGGESTIONS = 5


async def suggest(session: TenantSession, query: str) -> list[str]:
    """Tags of the tenant, those that resemble the query's words first."""
    words = [word.lower() for word in WORD.findall(query)[:20]]
    return await db.suggest_tags(session, words, SUGGESTIONS)
