"""The bytes of assets, and the text extracted from them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes of an asset's version, and the title that a caller gave."""

    name: str
    media_type: str
    data: bytes
    generation: int
    given_title: str | None


@dataclass(frozen=True, slots=True)
class AssetContent:
    """The bytes of an asset's version, without the bytes themselves."""

    id: UUID
    name: str
    media_type: str
    byte_size: int
    sha256: bytes
    generation: int


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of an asset; None until it is indexed."""

    text: str | None


async def fetch_original(session: TenantSession, asset_id: UUID) -> Original | None:
    """The bytes of an asset."""
    return await session.fetch_one_as(Original, SQL["original"], id=asset_id)


async def fetch_content(session: TenantSession, asset_id: UUID) -> AssetContent | None:
    """What is known of an asset's bytes; None if there is no such asset."""
    return await session.fetch_one_as(AssetContent, SQL["content"], id=asset_id)


async def fetch_content_part(
    session: TenantSession, content: AssetContent, start: int, length: int
) -> bytes | None:
    """`length` bytes from `start` (0 is the first); None when the asset was deleted or has other bytes."""
    part: bytes | None = await session.fetch_value(
        SQL["content_part"], id=content.id, generation=content.generation, start=start + 1, length=length
    )
    return part


async def fetch_text(session: TenantSession, asset_id: UUID) -> ExtractedText | None:
    """The extracted text of an asset; None if there is no such asset."""
    return await session.fetch_one_as(ExtractedText, SQL["extracted_text"], id=asset_id)
