"""Assets: ingested files, as uploaded, changed and shown."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from app.contract.entries import ExternalId, Metadata, Principals, Roles, Tags, Title
from app.contract.validation import UNSET, Described, Unset, request, stored_fields
from app.contract.vocabulary import Audience

MAX_NAME = 512
"""Characters of the name of a file."""

AssetStatus = Literal["pending", "processing", "indexed", "failed"]


@dataclass(frozen=True, slots=True)
class Asset(Described):
    """An ingested file."""

    id: UUID
    source: Annotated[str | None, Field(description="The source that the asset belongs to.")]
    external_id: str | None
    """Unique among the assets without a source, and within each source."""
    name: str
    media_type: str
    byte_size: int
    title: Annotated[str | None, Field(description="The title that a caller gave, else the one of the file.")]
    total_pages: int | None
    pages_without_text: Sequence[int]
    """Numbers of pages that show something and have no text, as scanned pages do, and of pages for which there was no
    time. With the extra `ocr`, text on images is recognised."""
    places_without_text: Sequence[int]
    """Of an asset without pages: offsets in its text where it has a picture of text, or in an archive a page, that was
    not recognised."""
    encoding: Annotated[str | None, Field(description="The encoding of a text; null for other files.")]
    encoding_guessed: bool | None
    """Whether nothing declared the encoding of the text: neither its first bytes, its `charset`, nor its own markup."""
    removed_controls: Annotated[int | None, Field(description="Control characters that were removed from a text.")]
    tags: Sequence[str]
    roles: Sequence[Audience]
    metadata: Mapping[str, Any]
    readers: Sequence[str] | None
    """Who may read the asset and its chunks; null: all readers of the tenant."""
    writers: Sequence[str] | None
    """Who of them may change the asset, with the role creator; null: all of them."""
    status: AssetStatus
    error: str | None
    progress: float
    generation: Annotated[int, Field(description="Counts the versions of the bytes.")]
    chunks: int
    flags: Annotated[Mapping[str, int], Field(description="Chunks with each flag of suspicious content.")]
    quarantined_chunks: int
    """Chunks that searches do not find because of their flags, until an admin releases them."""
    duplicate_of: UUID | None
    """The oldest asset with the same bytes, if it is another one. Searches return a text that both have once, under the
    asset that was indexed first among those that the filters admit."""
    version: Annotated[int, Field(description="Counts all changes by callers; If-Match accepts it.")]
    created_at: datetime
    updated_at: datetime


@request
class AssetFields:
    """What callers set of an asset, and its chunks get."""

    # An unset field of a new asset gets its default, and keeps its value in an existing one.

    _: KW_ONLY
    tags: Annotated[Tags | Unset, Field(description="Replaces the tags of the asset and its chunks.")] = UNSET
    roles: Roles | Unset = UNSET
    """The audience of the asset and its chunks; not a permission."""
    metadata: Metadata | Unset = UNSET
    """Replaces the metadata of the asset and its chunks; a chunk keeps its position."""
    readers: Principals | Unset | None = UNSET
    """Who may read the asset and its chunks, from the answer on; you are one of them. Null: all readers of the tenant.
    An asset of a source has those of the source."""
    writers: Principals | Unset | None = UNSET
    """Who of its readers with the role creator may change the asset; you are one of them. Null: all of them. An asset
    of a source has those of the source."""

    def given(self) -> dict[str, Any]:
        """The fields that are set, with lists as rows have them."""
        return stored_fields(self, CHANGEABLE)

    @property
    def restricts(self) -> bool:
        """Whether it changes who may read or change the asset."""
        return self.readers is not UNSET or self.writers is not UNSET


@request(schema={"examples": [{"tags": ["handbook"]}]})
class AssetPatch(AssetFields):
    """Changes to an asset. Omitted fields are unchanged."""

    title: Title | Unset | None = UNSET
    """The title of the asset and its chunks; null restores the title of the file."""


CHANGEABLE = ("title", "tags", "roles", "metadata", "readers", "writers")
"""The fields that a patch can change."""


@request
class Upload(AssetFields):
    """A file as a caller sends it."""

    name: str
    data: bytes
    declared_type: str | None = None
    external_id: ExternalId | None = None
