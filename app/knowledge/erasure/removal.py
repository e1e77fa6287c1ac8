"""Remove what an erasure covers from every table of a tenant, one batch in each transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from app.contract.erasures import Dependent, ErasureKind, Remainder
from app.db.queries import assets
from app.db.queries import erasures as db
from app.db.queries import jobs as queue
from app.db.queries import removal as rows
from app.db.queries.erasures import HeldErasure
from app.db.queries.removal import VisitedReceipts, Words
from app.db.queries.versions import erase_versions
from app.db.session import TenantSession
from app.knowledge.quarantine.releases import forget_releases
from app.knowledge.search.receipts import FILTERS

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
"""What is removed for a subject, in addition to the assets and entries that the subject created."""

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
"""Tables from which nothing is removed, with the reason. A test compares all lists with the tables that have a
tenant_id."""


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
    Remainder("wal", "the write-ahead log has the old rows until its segments are recycled or archived ones expire"),
    Remainder("replicas", "each replica removes the rows when it replays them; its files are those of the primary"),
    Remainder("backups", "backups and exports that were made before have everything; they expire by your own rules"),
    Remainder(
        "origins",
        "the file of an asset that belongs to a source: the next run brings it back if it is still there",
    ),
    Remainder("memory", "each process may keep the last queries and their vectors, which no request can read"),
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


def places_of(kind: ErasureKind) -> Sequence[str]:
    """The places that an erasure of this kind covers, in order."""
    return tuple(dict.fromkeys((*OF_ITEMS, *(OF_SUBJECTS if kind == "subject" else ()))))


def remainders_of(kind: ErasureKind) -> Sequence[Remainder]:
    """What an erasure of this kind leaves."""
    return (*REMAINS, AUDIT_REMAINS, VERSIONS_REMAIN, *((SUBJECT_REMAINS,) if kind == "subject" else ()))


ENTRIES = 200
"""Entries that one transaction erases."""
ROWS = 2_000
"""Rows of a subject that one transaction removes, of each kind."""
RECEIPTS = 200
"""Receipts that one transaction reads. Each has about a hundred ranks, 9 KB: more would not fit into `work_mem` (4 MB).
One that is changed takes about 1.1 ms, half of it to compress it; 500 at once took as long each."""
COUNTED = 5_000
"""Ids to look for in one statement."""
MAX_DERIVED = 1_000
"""Most items that a receipt names for decision; `derived_total` counts them all."""
MAX_FORMER = 500
"""Most former versions among them, so that items of today have a place."""

NO_WORDS = Words((), ())


async def plan(session: TenantSession, held: HeldErasure) -> None:
    """Collect the ids of the items to erase."""
    if held.subject is not None:
        await db.add_of_subject(session, held.id, held.subject)
        await db.add_chunks(session, held.id)
        _name(held, await db.find_changed(session, held.id, held.subject))
    elif held.target is not None:
        await db.add_item(session, held.id, "asset" if held.kind == "asset" else "entry", held.target)
        await db.add_chunks(session, held.id)
    await _name_former(session, held)


async def remove_some(session: TenantSession, held: HeldErasure) -> Words | None:
    """Remove a batch; returns the words whose statistics were removed, or None if there was nothing to remove."""
    if ids := await db.take_items(session, held.id, "entry", ENTRIES):
        return await _remove_entries(session, held, ids)
    for asset_id in await db.take_items(session, held.id, "asset", 1):
        await _remove_asset(session, held, asset_id)
        return NO_WORDS
    if held.subject is not None and (counts := await rows.delete_of_subject(session, held.id, held.subject, ROWS)):
        add(held.removed, counts)
        return NO_WORDS
    if tags := await rows.delete_unused_tags(session, ROWS):
        add(held.removed, {"tag_statistics": len(tags)})
        return Words((), tags)
    return None


async def strip_receipts(session: TenantSession, held: HeldErasure) -> bool:
    """Remove the erased entries from the next receipts; returns whether there are more."""
    visited = await rows.strip_receipts(session, held.id, held.place, RECEIPTS, list(FILTERS))
    return _visit(held, visited, held.removed)


async def look_at_receipts(session: TenantSession, held: HeldErasure) -> bool:
    """Count those of the next receipts that name an erased entry; return whether there are more."""
    return _visit(held, await rows.look_at_receipts(session, held.id, held.place, RECEIPTS), held.found)


async def look(session: TenantSession, held: HeldErasure) -> None:
    """Count the remaining rows of all items and of the subject, except in receipts."""
    for kind in ("entry", "asset"):
        after = db.FIRST
        while ids := await db.list_items(session, held.id, kind, after, COUNTED):
            after = ids[-1]
            wanted = {"entries": ids} if kind == "entry" else {"assets": ids}
            add(held.found, await rows.count_traces(session, **wanted))
    if held.subject is not None:
        add(held.found, await rows.count_traces_of_subject(session, held.subject))


async def _remove_entries(session: TenantSession, held: HeldErasure, ids: Sequence[UUID]) -> Words:
    _name(held, await rows.find_dependents(session, held.id, entries=ids))
    words = await rows.find_words(session, ids)
    add(held.removed, await rows.count_traces(session, entries=ids))
    add(held.removed, {"released_texts": await forget_releases(session, ids)})
    await rows.delete_entries(session, ids)
    removed = await rows.delete_unused_words(session, words)
    add(held.removed, {"lexeme_statistics": len(removed)})
    await db.mark_erased(session, held.id, ids)
    return Words(removed, ())


async def _remove_asset(session: TenantSession, held: HeldErasure, asset_id: UUID) -> None:
    """Remove an asset. If it got chunks since they were collected, these are removed first, by the next batches."""
    counts = await rows.count_traces(session, assets=[asset_id])
    # The worker locks the job first and then the asset; the other order here could deadlock.
    await queue.cancel_jobs(session, "ingest_asset", str(asset_id))
    await assets.lock_asset(session, asset_id)
    if await db.add_chunks(session, held.id):
        add(held.removed, {"jobs": counts.get("jobs", 0)})
        return
    _name(held, await rows.find_dependents(session, held.id, asset_id=asset_id))
    await assets.delete_asset(session, asset_id)
    await erase_versions(session, [], [asset_id])
    add(held.removed, counts)
    await db.mark_erased(session, held.id, [asset_id])


def _visit(held: HeldErasure, visited: VisitedReceipts, counts: dict[str, int]) -> bool:
    if visited.last is None:
        return False
    held.place = visited.last
    add(counts, {"searches": visited.rows})
    return True


def _name(held: HeldErasure, dependents: Sequence[Dependent]) -> None:
    """Add items to those named for decision, each once for each relation."""
    for named in dependents:
        if named in held.derived:
            continue
        held.derived_total += 1
        if len(held.derived) < MAX_DERIVED:
            held.derived.append(named)


async def _name_former(session: TenantSession, held: HeldErasure) -> None:
    """Add former versions of other items to those named for decision."""
    found, total = await rows.find_former_dependents(session, held.id, held.subject, MAX_FORMER)
    held.derived_total += total
    held.derived += found


def add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add numbers of rows, by place."""
    counts.update(Counter(counts) + Counter(more))
