"""Assets: ingested files, as they are uploaded, changed and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from app.contract.vocabulary import Audience

AssetStatus = Literal["pending", "processing", "indexed", "failed"]


@dataclass(frozen=True, slots=True)
class Asset:
    """An ingested file."""

    id: UUID
    source: Annotated[str | None, Field(description="The source that the asset belongs to.")]
    external_id: Annotated[
        str | None,
        Field(description="Unique among the assets without a source, and within each source."),
    ]
    name: str
    media_type: str
    byte_size: int
    title: Annotated[str | None, Field(description="The title that a caller gave, else the one of the file.")]
    total_pages: int | None
    pages_without_text: Annotated[
        Sequence[int],
        Field(
            description="Numbers of pages that show something and have no text, as scanned pages do. With the extra"
            " `ocr` their text is recognised, and those are listed for which there was no time."
        ),
    ]
    tags: Sequence[str]
    roles: Sequence[Audience]
    metadata: Mapping[str, Any]
    readers: Annotated[
        Sequence[str] | None,
        Field(description="Who may read the asset and its chunks; null: all readers of the tenant."),
    ]
    writers: Annotated[
        Sequence[str] | None,
        Field(description="Who of them may change the asset, with the role creator; null: all of them."),
    ]
    status: AssetStatus
    error: str | None
    progress: float
    generation: Annotated[int, Field(description="Counts the versions of the bytes.")]
    chunks: int
    flags: Annotated[Mapping[str, int], Field(description="Chunks with each flag of suspicious content.")]
    quarantined_chunks: Annotated[
        int,
        Field(
            description="Chunks that searches do not find because of their flags, until an admin releases them."
        ),
    ]
    duplicate_of: Annotated[
        UUID | None,
        Field(
            description="The oldest asset with the same bytes, if it is another one. Searches return a text that both"
            " have once, under the asset that was indexed first among those that the filters admit."
        ),
    ]
    version: Annotated[int, Field(description="Counts all changes by callers; the ETag.")]
    created_at: datetime
    updated_at: datetime
