"""The first page before a search: news, saved searches, and questions to try."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.console.hits import HEADINGS
from app.console.rendering import Visit
from app.contract.assets import Asset
from app.contract.entries import Entry
from app.contract.saved_searches import SavedSearch

NEWS = 6
"""Most new documents and entries shown."""

SAVED = 6
"""Most saved searches shown."""

LOOKED_AT = 30
"""Newest written entries, and newest chunks of each new document, whose titles and headings become questions."""

QUESTIONS = 6
"""Most questions shown."""

WORDS = range(2, 11)
"""Words that a title needs to be a question: one is too vague, and a sentence too long for a button."""

LONGEST = 70
"""Characters of a question."""

_APPARATUS = re.compile(
    r"(?:(?:appendix|anhang) )?(?:[a-z\d]{1,3}(?:\.\d{1,3})*[.:]? )?(?:"
    r"(?:[\w-]+ ){0,3}(?:index|indexes|indices)|index of [\w -]+|(?:short |brief )?(?:table of )?contents"
    r"|list of [\w-]+|(?:gnu )?free documentation license|copying this (?:manual|document)"
    r"|(?:license|copyright)(?: notice| information)?"
    r"|revision history|further reading|see also|about this (?:manual|document|book|guide))",
    re.IGNORECASE,
)
"""Headings of parts that lead to others, or tell of the document itself, as manuals have them."""

_NUMBER = re.compile(r"(?:\d{1,3}\.|[A-Z\d]{1,3}(?:\.\d{1,3})+\.?)\s+(?=[^\W\d])")
"""The number of a section before its heading, such as `5.3`."""


@dataclass(frozen=True, slots=True)
class News:
    """A new document or written entry; `status` applies to documents."""

    title: str
    address: str
    kind: str
    at: datetime
    status: str = "indexed"


@dataclass(frozen=True, slots=True)
class Start:
    """The contents of the first page; all of it is visible to the caller."""

    news: Sequence[News]
    saved: Sequence[SavedSearch]
    questions: Sequence[str]

    @property
    def is_empty(self) -> bool:
        """Whether the tenant has no knowledge yet."""
        return not self.news


async def gather_start(visit: Visit) -> Start:
    """Read the contents of the first page. Raises DatabaseUnavailable."""
    tenant_id, services = visit.tenant_id, visit.services
    # One after another: a page has no need of several connections.
    assets = await services.assets.list_assets(tenant_id, limit=NEWS)
    written = await services.entries.list_entries(tenant_id, limit=LOOKED_AT, source="entry")
    newest = [*written.items]
    for asset in assets.items:
        chunks = await services.entries.list_entries(tenant_id, limit=LOOKED_AT, asset_id=asset.id)
        newest += chunks.items
    saved = await services.saved_searches.list_saved(tenant_id, visit.subject, limit=SAVED)
    news = [*map(_document, assets.items), *map(_entry, written.items[:NEWS])]
    news.sort(key=lambda item: item.at, reverse=True)
    return Start(news[:NEWS], saved.items, find_questions(newest))


def find_questions(entries: Iterable[Entry]) -> list[str]:
    """Titles and headings to search for: real questions first, then at most one of each document in turn."""
    sources: dict[object, list[str]] = {}
    for entry in entries:
        if (title := _subject(entry)) is not None:
            sources.setdefault(entry.asset_id or entry.entry_type, []).append(title)
    found = list(dict.fromkeys(_take_turns(list(sources.values()))))
    found.sort(key=lambda title: not title.endswith("?"))
    return found[:QUESTIONS]


def _take_turns(lists: Sequence[Sequence[str]]) -> Iterator[str]:
    for number in range(max(map(len, lists), default=0)):
        yield from (titles[number] for titles in lists if number < len(titles))


def _subject(entry: Entry) -> str | None:
    """The title of an entry, or the last heading of a chunk without its number, if it can be searched for."""
    title = entry.title or ""
    if entry.asset_id is not None:
        title = _NUMBER.sub("", title.split(HEADINGS)[-1].strip(), count=1)
    title = " ".join(title.split())
    if len(title.split()) not in WORDS or len(title) > LONGEST or _APPARATUS.fullmatch(title):
        return None
    return title


def _document(asset: Asset) -> News:
    return News(asset.name, f"/console/assets/{asset.id}", "document", asset.created_at, asset.status)


def _entry(entry: Entry) -> News:
    title = entry.title or entry.content
    return News(title, f"/console/entries/{entry.id}", entry.entry_type, entry.created_at)
