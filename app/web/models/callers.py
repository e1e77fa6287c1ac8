"""The callers of a tenant."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class CallerModel(BaseModel):
    """What a caller did in the last 24 hours. Limits are those of the tenant; single callers have none."""

    subject: str = Field(description="The `sub` of its tokens.")
    searches: int
    without_results: int
    p95_ms: int | None = Field(description="Of its searches; null without any.")
    changes: int
    refused: int = Field(description="Refused requests that the audit trail has.")
    last_at: datetime


class CallerList(BaseModel):
    """The most active callers first, at most 100."""

    items: list[CallerModel]
