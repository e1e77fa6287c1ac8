"""Erase an asset, an entry or all data of a subject from every table, and show the receipts."""

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from app.contract.erasures import Dependent, Erasure, NewErasure, Place, Remainder
from app.contract.fields import Page
from app.contract.validation import same_fields
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries import assets, audit
from app.db.queries import erasures as db
from app.db.queries import jobs as queue
from app.db.queries.erasures import HeldErasure, StoredErasure, VisitedReceipts, Words
from app.db.queries.versions import erase_versions
from app.db.rows import new_id
from app.db.session import TenantSession
from app.errors import AssetNotFound, DatabaseUnavailable, EntryNotFound, ErasureNotFound, PartOfAsset
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest
from app.knowledge.quarantine import forget_releases
from app.knowledge.queue import JobQueue
from app.knowledge.search.journal import FILTERS, RECENT, SearchJournal

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
        "origins", "the file of an asset that belongs to a source: the next run brings it back if it is still there"
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
    if held.subject is not None and (counts := await db.delete_of_subject(session, held.id, held.subject, ROWS)):
        add(held.removed, counts)
        return NO_WORDS
    if tags := await db.delete_unused_tags(session, ROWS):
        add(held.removed, {"tag_statistics": len(tags)})
        return Words((), tags)
    return None


async def strip_receipts(session: TenantSession, held: HeldErasure) -> bool:
    """Remove the erased entries from the next receipts; returns whether there are more."""
    visited = await db.strip_receipts(session, held.id, held.place, RECEIPTS, list(FILTERS))
    return _visit(held, visited, held.removed)


async def look_at_receipts(session: TenantSession, held: HeldErasure) -> bool:
    """Count those of the next receipts that name an erased entry; return whether there are more."""
    return _visit(held, await db.look_at_receipts(session, held.id, held.place, RECEIPTS), held.found)


async def look(session: TenantSession, held: HeldErasure) -> None:
    """Count the remaining rows of all items and of the subject, except in receipts."""
    for kind in ("entry", "asset"):
        after = db.FIRST
        while ids := await db.list_items(session, held.id, kind, after, COUNTED):
            after = ids[-1]
            wanted = {"entries": ids} if kind == "entry" else {"assets": ids}
            add(held.found, await db.count_traces(session, **wanted))
    if held.subject is not None:
        add(held.found, await db.count_traces_of_subject(session, held.subject))


async def _remove_entries(session: TenantSession, held: HeldErasure, ids: Sequence[UUID]) -> Words:
    _name(held, await db.find_dependents(session, held.id, entries=ids))
    words = await db.find_words(session, ids)
    add(held.removed, await db.count_traces(session, entries=ids))
    add(held.removed, {"released_texts": await forget_releases(session, ids)})
    await db.delete_entries(session, ids)
    removed = await db.delete_unused_words(session, words)
    add(held.removed, {"lexeme_statistics": len(removed)})
    await db.mark_erased(session, held.id, ids)
    return Words(removed, ())


async def _remove_asset(session: TenantSession, held: HeldErasure, asset_id: UUID) -> None:
    """Remove an asset. If it got chunks since they were collected, these are removed first, by the next batches."""
    counts = await db.count_traces(session, assets=[asset_id])
    # The worker locks the job first and then the asset; the other order here could deadlock.
    await queue.cancel_jobs(session, "ingest_asset", str(asset_id))
    await assets.lock_asset(session, asset_id)
    if await db.add_chunks(session, held.id):
        add(held.removed, {"jobs": counts.get("jobs", 0)})
        return
    _name(held, await db.find_dependents(session, held.id, asset_id=asset_id))
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
    found, total = await db.find_former_dependents(session, held.id, held.subject, MAX_FORMER)
    held.derived_total += total
    held.derived += found


def add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add numbers of rows, by place."""
    counts.update(Counter(counts) + Counter(more))


STEP = timedelta(minutes=10)
"""Time limit of a statement; most take milliseconds, the first reads the audit trail of a subject."""

SECOND_LOOK = RECENT + 5.0
"""Seconds between the two looks. A search that began before the removal may be recorded until then."""

AGAIN = 5.0
"""Seconds before the removal is repeated when a look has found something."""

TRAIL_ROWS = 20_000
"""Rows of the audit trail that one transaction changes."""

WORDS = ("tag_statistics", "lexeme_statistics")
"""Places that are checked after each batch, since their words are only known until then."""


async def _conclude(session: TenantSession, held: HeldErasure) -> float | None:
    """End a look: the next state, or the removal again if something was found; returns the pause before."""
    held.step, held.place = "remove", db.FIRST
    await db.look_for_all(session, held.id)
    if any(held.found.values()):
        # The words of the erased entries are no longer known; they are counted as new ones are removed.
        return AGAIN
    if held.state == "running":
        held.state = "erased"
        return SECOND_LOOK
    held.state = "done"
    await db.forget_items(session, held.id)
    return None


def describe(stored: StoredErasure) -> Erasure:
    """The receipt of a stored erasure."""
    found, of_subject = None if stored.checked_at is None else stored.found, stored.kind == "subject"
    return Erasure(
        **same_fields(stored, Erasure),
        asset_id=stored.target if stored.kind == "asset" else None,
        entry_id=stored.target if stored.kind == "entry" else None,
        pseudonym=f"erased:{stored.id}" if of_subject else None,
        places=[
            Place(place, stored.removed.get(place, 0), None if found is None else found.get(place, 0))
            for place in dict.fromkeys((*OF_ITEMS, *(OF_SUBJECTS if of_subject else ())))
        ],
        remains=(*REMAINS, AUDIT_REMAINS, VERSIONS_REMAIN, *((SUBJECT_REMAINS,) if of_subject else ())),
    )


AT_ONCE = 10.0
"""Seconds that a request works on its erasure before it leaves the rest to the job."""


class ErasureService:
    """Creates erasures, works on them for the request that asked and for the job, and reads their receipts."""

    def __init__(self, database: Database, trail: AuditTrail, jobs: JobQueue, journal: SearchJournal) -> None:
        self._database = database
        self._trail = trail
        self._jobs = jobs
        self._journal = journal

    async def erase(self, tenant_id: UUID, wanted: NewErasure, *, actor: str = "service") -> Erasure:
        """Erase an asset, an entry, or everything of a subject.

        An erasure that takes longer than some seconds continues as a job, and so does its second look. An asset or
        entry that was deleted or erased before can be erased again, which removes what is left of it.
        Raises AssetNotFound, EntryNotFound, PartOfAsset for a chunk, and DatabaseUnavailable.
        """
        kind, target, erasure_id = wanted.kind, wanted.target, new_id()
        targets = [] if target is None else [target]
        async with self._trail.writing(tenant_id, actor, "erasure.create", targets) as session:
            if wanted.asset_id is not None:
                if not (await db.find_target(session, "asset", wanted.asset_id)).is_known:
                    raise AssetNotFound("there is no asset with this id")
            elif wanted.entry_id is not None:
                await _require_entry(session, wanted.entry_id)
            await db.create_erasure(session, erasure_id, kind, target, wanted.subject, actor)
            await self._jobs.enqueue(session, "erase", str(erasure_id), delay=AT_ONCE + SECOND_LOOK)
            await audit.write_audit(session, actor, "erasure.create", [erasure_id, *targets], {"kind": kind})
        # The job continues what does not end here.
        with contextlib.suppress(DatabaseUnavailable), acting_for_service():
            await self.advance(tenant_id, erasure_id, seconds=AT_ONCE)
        return await self.get(tenant_id, erasure_id)

    async def get(self, tenant_id: UUID, erasure_id: UUID, *, reader: str | None = None) -> Erasure:
        """The receipt of an erasure. Raises ErasureNotFound."""
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.fetch_erasures(session, [erasure_id])
            await self._trail.note_read(session, reader, "erasure.read", erasure_id, found=bool(found))
        if not found:
            raise ErasureNotFound("there is no erasure with this id")
        return describe(found[0])

    async def list_erasures(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None, reader: str | None = None
    ) -> Page[Erasure]:
        """List receipts, newest first. Raises InvalidInput for a bad cursor."""
        wanted = PageRequest.read(limit, cursor)
        async with self._database.tenant_session(tenant_id) as session:
            page = wanted.cut_places(await db.list_erasures(session, wanted.after, wanted.reach))
            found = await db.fetch_erasures(session, [place.id for place in page.items])
            await self._trail.note_read(session, reader, "erasure.read")
        return Page([describe(each) for each in found], page.next_cursor)

    async def advance(self, tenant_id: UUID, erasure_id: UUID, *, seconds: float) -> float | None:
        """Continue an erasure for about `seconds`.

        Returns None when it is finished, else the seconds to wait before the next call. Raises DatabaseUnavailable.
        """
        end = time.monotonic() + seconds
        await self._journal.flush()  # receipts of searches that this process has answered
        while True:
            pause = await self._step(tenant_id, erasure_id)
            if pause is None or pause > 0:
                return pause
            if time.monotonic() >= end:
                return 0.0

    async def _step(self, tenant_id: UUID, erasure_id: UUID) -> float | None:
        """Take one step; returns as `advance` does."""
        words: Words | None = None
        pause: float | None = 0.0
        async with self._database.tenant_session(tenant_id, background=STEP) as session:
            held = await db.hold_erasure(session, erasure_id)
            if held is None or held.state == "done":
                return None
            step = held.step
            match step:
                case "plan":
                    await plan(session, held)
                    held.step = "remove"
                case "remove":
                    words = await remove_some(session, held)
                    if words is None:
                        held.step = "receipts" if held.subject is None else "trail"
                case "receipts":
                    if not await strip_receipts(session, held):
                        held.step, held.place = "look", db.FIRST
                case "look":
                    held.found = {place: held.found[place] for place in WORDS if place in held.found}
                    await look(session, held)
                    held.step = "look_at_receipts"
                case "look_at_receipts":
                    if not await look_at_receipts(session, held):
                        pause = await _conclude(session, held)
                        if pause == SECOND_LOOK and await db.has_word_statistics(session):
                            # The words of items that were deleted or changed earlier are unknown: all are counted.
                            await self._jobs.enqueue(session, "refresh_statistics", "lexemes")
                case "trail":
                    pass
            await db.save_erasure(session, held, looked=pause != 0.0)
        if step == "trail":
            await self._change_trail(tenant_id, erasure_id)
        if words is not None:
            await self._look_for_words(tenant_id, erasure_id, words)
        return pause

    async def _change_trail(self, tenant_id: UUID, erasure_id: UUID) -> None:
        """Replace the subject in some rows of the audit trail."""
        async with self._database.shared_session(tenant_id) as session:
            changed = await db.pseudonymise_actor(session, erasure_id, TRAIL_ROWS)
        await self._count(tenant_id, erasure_id, {"audit": changed}, {}, "trail" if changed else "receipts")

    async def _look_for_words(self, tenant_id: UUID, erasure_id: UUID, words: Words) -> None:
        """Look for the statistics of words and tags that a batch removed, in a transaction of its own."""
        if not words.lexemes and not words.tags:
            return
        async with self._database.tenant_session(tenant_id) as session:
            left = await db.count_left_words(session, words)
        if left:
            await self._count(tenant_id, erasure_id, {}, left, "remove")

    async def _count(
        self, tenant_id: UUID, erasure_id: UUID, removed: dict[str, int], found: dict[str, int], step: db.Step
    ) -> None:
        async with self._database.tenant_session(tenant_id) as session:
            held = await db.hold_erasure(session, erasure_id)
            if held is not None:
                add(held.removed, removed)
                add(held.found, found)
                held.step = step
                await db.save_erasure(session, held)


async def _require_entry(session: TenantSession, entry_id: UUID) -> None:
    """Raises EntryNotFound unless the tenant has, or had, the entry, and PartOfAsset for a chunk."""
    found = await db.find_target(session, "entry", entry_id)
    if found.asset_id is not None:
        raise PartOfAsset("the entry is a chunk of an asset: erase the asset instead")
    if not found.is_known:
        raise EntryNotFound("there is no entry with this id")
