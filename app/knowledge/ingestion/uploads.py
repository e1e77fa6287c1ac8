"""A file as a caller sends it, and its check."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.db.queries.knowledge.assets import LockedAsset, NewAsset
from app.documents.formats import detect_format
from app.errors import FieldError, InvalidInput
from app.knowledge.entries.drafts import UNSET, EntryDraft, Unset, check_draft
from app.knowledge.ingestion.changes import AssetDraft, draft_of
from app.knowledge.text import STORABLE, is_storable


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as a caller sends it. An unset field of an existing asset keeps its value."""

    name: str
    data: bytes
    declared_type: str | None = None
    external_id: str | None = None
    tags: Sequence[str] | Unset = UNSET
    roles: Sequence[str] | Unset = UNSET
    metadata: Mapping[str, Any] | Unset = UNSET
    readers: Sequence[str] | Unset | None = UNSET
    writers: Sequence[str] | Unset | None = UNSET


def check_upload(upload: Upload) -> tuple[NewAsset, AssetDraft]:
    """Check a file, and recognise its format. Raises InvalidInput and UnsupportedMediaType."""
    # Some clients send a path: only its last part is the name.
    name = upload.name.replace("\\", "/").rpartition("/")[2].strip()
    if not 1 <= len(name) <= 512 or not is_storable(name):
        raise InvalidInput([FieldError("file", f"needs a name of 1 to 512 characters, {STORABLE}")])
    given = EntryDraft(
        tags=upload.tags,
        roles=upload.roles,
        metadata=upload.metadata,
        external_id=upload.external_id,
        readers=upload.readers,
        writers=upload.writers,
    )
    valid = check_draft(given)
    kind = detect_format(upload.data, name, upload.declared_type)
    new = NewAsset(
        external_id=upload.external_id,
        name=name,
        media_type=kind.media_type,
        sha256=hashlib.sha256(upload.data).digest(),
        original=upload.data,
        tags=() if isinstance(valid.tags, Unset) else valid.tags,
        roles=("all",) if isinstance(valid.roles, Unset) else valid.roles,
        metadata={} if isinstance(valid.metadata, Unset) else valid.metadata,
        readers=None if isinstance(valid.readers, Unset) else valid.readers,
        writers=None if isinstance(valid.writers, Unset) else valid.writers,
        readers_given=not isinstance(valid.readers, Unset),
    )
    return new, draft_of(valid)


def inherit(new: NewAsset, merged: LockedAsset) -> NewAsset:
    """A new version with the fields that its asset has or gets."""
    return replace(
        new,
        tags=merged.tags,
        roles=merged.roles,
        metadata=merged.metadata,
        readers=merged.readers,
        writers=merged.writers,
    )
