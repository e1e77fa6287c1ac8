"""Every table of a tenant: what an erasure removes from it, or why it removes nothing.

A test compares both lists with the tables that have a tenant_id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.db.queries.tenants.erasures import Kind

OF_ITEMS: Mapping[str, str] = {
    "entries": "the entries, and the chunks of the assets, with their titles, texts, tags, metadata and words",
    "assets": "the assets, with their original bytes and extracted text",
    "embeddings": "the vectors",
    "former_entries": "the former versions of the entries, and of the chunks that the assets ever had",
    "former_embeddings": "the vectors of these versions",
    "pending_embeddings": "the work to compute vectors",
    "entry_changes": "the work to compare the entries with subscriptions",
    "access_counts": "how often the entries were read",
    "released_texts": "that their texts were released from quarantine",
    "feedback": "judgements on the entries, with the texts of the queries",
    "deliveries": "webhook messages about the entries, sent or waiting; a message's text is made when it is sent",
    "jobs": "the ingestion of the assets",
    "source_items": "the files of the assets in the lists of their sources, with their paths",
    "searches": "the ranks of the entries in receipts, and the query and filters of these searches",
    "lexeme_statistics": "words that fewer than two other entries have; corrections and suggestions come from these",
    "tag_statistics": "tags that no entry has any more",
}
"""What is removed for an asset or an entry, by table."""

OF_SUBJECTS: Mapping[str, str] = {
    "callers": "the subject's groups and roles, as its last token had them",
    "searches": "the subject's searches",
    "feedback": "the subject's judgements",
    "saved_searches": "the subject's saved searches",
    "subscriptions": "the subscriptions to these",
    "deliveries": "the messages to these",
    "audit": "the subject's name, which a pseudonym replaces",
    "erasures": "the subject's name where the subject asked for an erasure",
}
"""What is removed for a subject, in addition to that of the assets and entries that the subject created."""

EXEMPT: Mapping[str, str] = {
    "corpus_statistics": "numbers of entries and characters by language and reader, which the removal lowers",
    "vector_statistics": "numbers of vectors, which the removal lowers",
    "asset_statistics": "the number of bytes of all files, which the removal lowers",
    "embedding_usage": "numbers of tokens by day",
    "model_changes": "numbers and the state of a model change",
    "revoked_tokens": "ids of tokens (jti), which name no subject",
    "kept_versions": "a time",
    "permissions": "a time",
    "sources": "names and origins of sources, with numbers and times of their runs",
    "erasure_items": "ids of the erasure itself, removed at its end",
}
"""Tables from which nothing is removed, with the reason."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """What an erasure leaves, and why."""

    place: str
    reason: str


REMAINS: Sequence[Remainder] = (
    Remainder(
        "data_files",
        "Postgres keeps the bytes of removed rows, index keys and column statistics in its files until it rewrites"
        " them: run `knowledge erase --files`",
    ),
    Remainder(
        "readers",
        "`user:SUB` in the readers and writers of what others created, and in the numbers of such entries: change these"
        " lists",
    ),
    Remainder(
        "wal", "the write-ahead log has the old rows until its segments are recycled or archived ones expire"
    ),
    Remainder(
        "replicas", "each replica removes the rows when it replays them; its files are those of the primary"
    ),
    Remainder(
        "backups", "backups and exports that were made before have everything; they expire by your own rules"
    ),
    Remainder(
        "origins",
        "the file of an asset that belongs to a source: the next run brings it back if it is still there",
    ),
    Remainder(
        "memory", "each process may keep the last queries and their vectors, which no request can read"
    ),
)
"""What remains by design."""

AUDIT_REMAINS = Remainder("audit", "the ids of erased items, and who did what with them; no content")
SUBJECT_REMAINS = Remainder(
    "attribution",
    "entries that came with an import, chunks' corrections, and entries older than the audit trail have no known"
    " author; texts about the subject that others wrote: search for them, and erase them one by one",
)
VERSIONS_REMAIN = Remainder(
    "former_entries",
    "former versions of other entries and assets, while the tenant keeps versions; those that may have erased texts are"
    " in `derived`, and a search with `as_of` finds others",
)


def places_of(kind: Kind) -> Sequence[str]:
    """The places that an erasure of this kind covers, in order."""
    return tuple(dict.fromkeys((*OF_ITEMS, *(OF_SUBJECTS if kind == "subject" else ()))))


def remainders_of(kind: Kind) -> Sequence[Remainder]:
    """What an erasure of this kind leaves."""
    return (*REMAINS, AUDIT_REMAINS, VERSIONS_REMAIN, *((SUBJECT_REMAINS,) if kind == "subject" else ()))
