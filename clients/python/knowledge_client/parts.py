"""What all answers have in common, and the parts of a search that it has only on request."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Part of an answer; newer services may add fields."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)


class Passage(Answer):
    """A further passage of a hit's asset."""

    id: UUID
    score: float
    chunk_index: int | None
    page: int | None
    title: str | None = None
    snippet: str


class PassageGroup(Answer):
    """The passages of a hit's asset: the number of ranked ones with the hit itself, and the best of the others."""

    total: int
    further: list[Passage]


class Validity(Answer):
    """When the version of an entry was valid that a search of a past time found; without an end it still is."""

    valid_from: datetime
    valid_until: datetime | None


class FacetValue(Answer):
    """A value, and the number of matches that have it."""

    value: bool | int | float | str
    count: int


class Facet(Answer):
    """The values of a field among all matches; if not `exact`, the counts are lower bounds."""

    values: list[FacetValue]
    other: int
    missing: int
    exact: bool


class HitOrigin(Answer):
    """The source of a hit's asset, and when it last agreed with its origin (None: not yet)."""

    source: str
    agreed_at: datetime | None


class Source(Answer):
    """A source: `agreed_at` is when its origin was last listed with the content that its assets then got."""

    name: str
    origin: str | None
    run: int
    items: int
    listed_at: datetime
    agreed_at: datetime | None
    agrees: bool
    readers: list[str] | None
    writers: list[str] | None
    created_at: datetime


class SourceStatus(Source):
    """A source with the number of its items in each state; they add up to `items`."""

    indexed: int
    pending: int
    failed: int
    refused: int
    missing: int


class AcceptedManifest(SourceStatus):
    """A source after a manifest, and what the manifest changed."""

    added: int
    changed: int
    moved: int
    removed: int


class SourceItem(Answer):
    """An item of a source; `reason` is that of a refusal or a failure."""

    external_id: str
    name: str
    digest: str
    asset_id: UUID | None
    state: str
    reason: str | None


class SourcePage(Answer):
    """A page of sources."""

    items: list[Source]
    next_cursor: str | None


class SourceItemPage(Answer):
    """A page of items."""

    items: list[SourceItem]
    next_cursor: str | None
