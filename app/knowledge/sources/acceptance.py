"""What a caller asks of a source, and what a manifest changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.db.queries.knowledge.sources import SourceStatus
from app.knowledge.entries.drafts import UNSET
from app.knowledge.sources.access import Given

ItemState = Literal["indexed", "pending", "failed", "refused", "missing"]
AssetsFate = Literal["keep", "delete"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the origin of a source has, and what its caller confirms.

    Attributes:
        items: parsed JSON, or ManifestItem.
        origin: describes where the files come from; None keeps the former text.
        run: the run that the caller saw before it listed the origin; None: any.
        listed_at: when the listing began; None: now.
        confirm_deletions: whether more assets may be deleted than `max_deletions`.
        allow_empty: whether a manifest without items may delete all assets.
        retry: whether files that were refused or could not be ingested are needed again.
        readers: who may see the source and read its assets, unless an item has readers; unset: as before.
        writers: who may send manifests and files, and sees all items; unset: as before.
    """

    items: Sequence[Any]
    origin: str | None = None
    run: int | None = None
    listed_at: datetime | None = None
    confirm_deletions: bool = False
    allow_empty: bool = False
    retry: bool = False
    readers: Given = UNSET
    writers: Given = UNSET


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted manifest: the source's status, and what the manifest changed; `is_new`: it created the source."""

    source: SourceStatus
    is_new: bool
    added: int
    changed: int
    moved: int
    removed: int
