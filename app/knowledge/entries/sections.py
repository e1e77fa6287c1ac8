"""Parts of an asset's text as readers ask for them: a page, a section, or the text from a position on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import inspection as db
from app.db.queries.knowledge.inspection import Section
from app.db.session import TenantSession
from app.errors import AssetNotFound, InvalidInput, TextNotReady
from app.knowledge.entries.inspection import MAX_CONTENTS, MAX_PART, MAX_POSITION
from app.knowledge.quarantine.service import require_released
from app.knowledge.text import STORABLE, is_storable

READ_LENGTH = 20_000
"""Characters of a text that are read at once."""

MAX_MATCHES = 20
"""Sections with a heading that is asked for."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part of an asset's text, which has `total` characters.

    Attributes:
        start, end: of the part that was read; offsets in characters.
        stop: where the page or the section ends; `end` is smaller if the part was cut.
        matches: sections whose heading matches, the first of which was read; empty without a heading.
        contents: headings of the whole text, if it was read from its beginning; at most `MAX_CONTENTS`.
    """

    text: str
    start: int
    end: int
    stop: int
    total: int
    matches: Sequence[Section]
    contents: Sequence[Section]

    @property
    def next_start(self) -> int | None:
        """Where the text continues; None at its end."""
        return self.end if self.end < self.total else None


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    stop: int | None
    matches: Sequence[Section] = ()


class SectionReader:
    """Reads parts of the assets of any tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(
        self,
        tenant_id: UUID,
        asset_id: UUID,
        *,
        page: int | None = None,
        heading: str | None = None,
        start: int | None = None,
        length: int = READ_LENGTH,
    ) -> ReadPart:
        """Read at most `length` characters (1 to 100,000) of a page, of the section of a heading, or from `start`.

        A heading is found by a part of it, in any case. Without any of the three, the text is read from its beginning.
        Raises AssetNotFound, TextNotReady, Quarantined if a part of the text is in quarantine, and InvalidInput for a
        page or heading that the text does not have.
        """
        if page is not None and heading is not None:
            raise InvalidInput.of("heading", "must be omitted with page")
        if start is not None and not (page is None and heading is None):
            raise InvalidInput.of("start", "must be omitted with page or heading")
        if not 0 <= (start or 0) <= MAX_POSITION or not 1 <= length <= MAX_PART:
            raise InvalidInput.of("start", "must be a position in the text")
        async with self._database.tenant_session(tenant_id) as session:
            await require_released(session, asset_id)
            if page is not None:
                span = await _find_page(session, asset_id, page)
            elif heading is not None:
                span = await _find_section(session, asset_id, heading)
            else:
                span = _Span(start or 0, None)
            size = length if span.stop is None else min(length, max(span.stop - span.start, 0))
            part = await db.fetch_text_part(session, asset_id, span.start, size)
            unasked = page is None and heading is None and start is None
            contents = await db.list_contents(session, asset_id, MAX_CONTENTS) if unasked else ()
            await require_released(
                session, asset_id
            )  # again: another transaction may have put it there since
        if part is None:
            raise AssetNotFound("there is no asset with this id")
        if part.text is None or part.total is None:
            raise TextNotReady("the asset has no text yet: see its status")
        if start is not None and start >= max(part.total, 1):
            raise InvalidInput.of(
                "start", f"must be less than {part.total}, the number of characters of the text"
            )
        end = span.start + len(part.text)
        return ReadPart(
            text=part.text,
            start=span.start,
            end=end,
            stop=part.total if span.stop is None else span.stop,
            total=part.total,
            matches=span.matches,
            contents=contents,
        )


async def _find_page(session: TenantSession, asset_id: UUID, number: int) -> _Span:
    """Where a page is. Raises AssetNotFound and InvalidInput."""
    if not 1 <= number < 2**31:
        raise InvalidInput.of("page", "must be the number of a page, from 1")
    span = await db.find_page(session, asset_id, number)
    if span is None:
        raise AssetNotFound("there is no asset with this id")
    if span.start is None:
        raise InvalidInput.of("page", f"must be a page of the document, which has no page {number}")
    return _Span(span.start, span.end)


async def _find_section(session: TenantSession, asset_id: UUID, heading: str) -> _Span:
    """Where the section of the first matching heading is. Raises AssetNotFound and InvalidInput."""
    wanted = heading.strip()
    if not wanted or not is_storable(wanted):
        raise InvalidInput.of("heading", f"must be a heading or a part of it, {STORABLE}")
    matches = await db.find_sections(session, asset_id, wanted, MAX_MATCHES)
    if matches:
        return _Span(matches[0].start, matches[0].end, matches)
    if await db.fetch_text_part(session, asset_id, 0, 0) is None:
        raise AssetNotFound("there is no asset with this id")
    raise InvalidInput.of("heading", "must be a heading of the document, or a part of one; none matches")
