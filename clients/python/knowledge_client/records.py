"""Answers about the past: former versions, erasures, and searches that run again."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from knowledge_client.parts import Answer


class Version(Answer):
    """An entry or a chunk, `id`, as it was from `valid_from` until just before `valid_until`."""

    id: UUID
    version: int
    valid_from: datetime
    valid_until: datetime
    entry_type: str
    title: str | None
    content: str
    tags: list[str]
    roles: list[str]
    confidence: float
    scope: str
    parent_id: UUID | None
    source_ids: list[UUID]
    superseded_by_id: UUID | None
    is_verified: bool
    asset_id: UUID | None
    chunk_index: int | None
    metadata: dict[str, Any]
    language: str
    expires_at: datetime | None
    external_id: str | None
    created_at: datetime
    updated_at: datetime


class VersionPage(Answer):
    """A page of former versions, the latest first."""

    items: list[Version]
    next_cursor: str | None


class ErasedPlace(Answer):
    """A table: the rows that were removed, and those that the last look found (None before the first)."""

    place: str
    removed: int
    found: int | None


class Dependent(Answer):
    """An item that depends on an erased one, and was not erased; `version` is that of an `entry_version`."""

    relation: str
    kind: str
    id: UUID
    version: int | None = None


class Remainder(Answer):
    """What an erasure leaves by design."""

    place: str
    reason: str


class Erasure(Answer):
    """The receipt of an erasure; `state` is `running`, `erased` or, after a second look, `done`."""

    id: UUID
    kind: str
    asset_id: UUID | None
    entry_id: UUID | None
    pseudonym: str | None
    requested_by: str
    state: str
    created_at: datetime
    erased_at: datetime | None
    checked_at: datetime | None
    places: list[ErasedPlace]
    derived: list[Dependent]
    derived_total: int
    remains: list[Remainder]


class ErasurePage(Answer):
    """A page of erasures, newest first."""

    items: list[Erasure]
    next_cursor: str | None


class RankedEntry(Answer):
    """A candidate of a search; ranks start at 1, and are None for a leg that did not find the entry."""

    id: UUID
    updated_at: datetime
    semantic_rank: int | None
    similarity: float | None
    keyword_rank: int | None
    keyword_score: float | None
    score: float
    rerank_rank: int | None
    rerank_score: float | None
    passages: int | None = None


class Difference(Answer):
    """A candidate whose rank or score differs between a search and its replay, and why."""

    id: UUID
    then_rank: int | None
    now_rank: int | None
    then_score: float | None
    now_score: float | None
    reason: str


class Replay(Answer):
    """Both rankings of a search; without `as_of`, the replay ran on what is valid now."""

    search_id: UUID
    at: datetime
    as_of: datetime | None
    same: bool
    causes: list[str]
    settings: list[str]
    differences: list[Difference]
    then: list[RankedEntry]
    now: list[RankedEntry]


class _ReleasedAnswer(Answer):
    released: list[UUID]
