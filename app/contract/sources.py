"""Sources: manifests of what an origin has, and the states of their items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

ItemState = Literal["indexed", "pending", "failed", "refused", "missing"]
AssetsFate = Literal["keep", "delete"]
"""What becomes of the assets of a deleted source."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source."""

    name: Annotated[str, Field(examples=["handbook"])]
    origin: Annotated[str | None, Field(examples=["git@example.com:handbook.git main"])]
    run: Annotated[int, Field(description="The number of its last manifest.", examples=[7])]
    items: Annotated[
        int,
        Field(
            description="Items of the last manifest; for callers who are not among its writers, those that they may"
            " read.",
            examples=[212],
        ),
    ]
    listed_at: Annotated[
        datetime, Field(description="When the listing of the origin for the last manifest began.")
    ]
    agreed_at: Annotated[
        datetime | None,
        Field(
            description="When the origin was listed with the content that the source's assets then got: the last time"
            " at which both agreed. Null: never."
        ),
    ]
    agrees: Annotated[
        bool,
        Field(
            description="Whether all items of the last manifest are settled, and none of their assets was deleted"
            " since.",
            examples=[True],
        ),
    ]
    readers: Annotated[
        Sequence[str] | None,
        Field(description="Who may see the source and read its assets; null: all readers of the tenant."),
    ]
    writers: Annotated[
        Sequence[str] | None,
        Field(description="Who may send manifests and files; null: all creators that see the source."),
    ]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SourceStatus(Source):
    """A source with the number of its items in each state; they add up to `items`."""

    indexed: Annotated[
        int, Field(description="Items whose assets have their content and are indexed.", examples=[210])
    ]
    pending: Annotated[int, Field(description="Items whose assets are being ingested.", examples=[0])]
    failed: Annotated[int, Field(description="Items whose files could not be ingested.", examples=[1])]
    refused: Annotated[
        int,
        Field(description="Items whose files are too large or in an unsupported format.", examples=[1]),
    ]
    missing: Annotated[
        int,
        Field(
            description="Items to upload, and items whose assets were deleted since the last manifest.",
            examples=[0],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Accepted(SourceStatus):
    """A source after a manifest, and what the manifest changed."""

    added: Annotated[int, Field(description="Items with a new external_id.", examples=[2])]
    changed: Annotated[
        int, Field(description="Items with another digest or name, or tried again.", examples=[1])
    ]
    moved: Annotated[
        int,
        Field(description="Items with another external_id and the same bytes, which keep their assets."),
    ]
    removed: Annotated[int, Field(description="Deleted assets.", examples=[0])]


@dataclass(frozen=True, slots=True)
class SourceItem:
    """An item of the last manifest and its state."""

    external_id: Annotated[str, Field(examples=["guide/backup.md"])]
    name: Annotated[str, Field(examples=["backup.md"])]
    digest: Annotated[str, Field(examples=["git:9daeafb9864cf43055ae93beb0afd6c7d144bfa4"])]
    asset_id: UUID | None
    state: ItemState
    reason: Annotated[str | None, Field(description="Why it was refused or has failed.", examples=[None])]
