"""The stored form of an entry: its hashes, the text to embed, and its fields once they are checked."""

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

from app.contract.assets import AssetPatch, Upload
from app.contract.entries import EntryDraft
from app.contract.validation import UNSET, Unset, amend
from app.errors import InvalidInput
from app.knowledge.parts import OF_PART
from app.knowledge.principals import own_list
from app.knowledge.quarantine import with_flags

PLACE = OF_PART | {"header_chars", "flags", "mail", "ocr", "parts", "total_pages"}
"""Metadata keys for what ingestion finds out about a chunk and its place in the document; only ingestion writes them,
and no asset passes on a value of its own: a page that is cited is one of the document."""


def inheritable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an asset that its chunks get."""
    return {key: value for key, value in metadata.items() if key not in PLACE}


def content_hash(content: str) -> bytes:
    """The identity of an entry without an external_id: the SHA-256 of its content."""
    return hashlib.sha256(content.encode()).digest()


def text_hash(title: str | None, content: str) -> bytes:
    """The `text_hash` of an entry: entries with the same one have the same vectors."""
    return content_hash(embedding_text(title, content))


def embedding_text(title: str | None, content: str) -> str:
    """The text that is embedded for an entry."""
    return f"{title}\n\n{content}" if title else content


Draft = TypeVar("Draft", EntryDraft, AssetPatch, Upload)


def own_draft(draft: Draft) -> Draft:
    """The draft with its readers and writers in the order of the database, and without flags, which only the service
    sets. Raises InvalidInput for a list that does not have the caller.
    """
    own: dict[str, Any] = {}
    for name, given in (("readers", draft.readers), ("writers", draft.writers)):
        if given is not None and not isinstance(given, Unset):
            own[name] = own_list(name, given)
    if not isinstance(draft.metadata, Unset):
        own["metadata"] = with_flags(draft.metadata, ())
    return amend(draft, **own)


def own_new_draft(draft: EntryDraft) -> EntryDraft:
    """The same for a new entry. Raises InvalidInput also when there is no content.

    A draft whose external_id is None has none, and leaves the one of an existing entry with its content.
    """
    if isinstance(draft.content, Unset):
        raise InvalidInput.of("content", "is required")
    own = own_draft(draft)
    return amend(own, external_id=UNSET) if own.external_id is None else own
