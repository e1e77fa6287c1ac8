"""The first page before a search: news, saved searches, and questions to try."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.console.hits import HEADINGS
from app.console.rendering import Visit
from app.console.words import name_document
from app.contract.assets import Asset
from app.contract.entries import Entry
from app.contract.saved_searches import SavedSearch
from app.documents.language import CONFIGURATIONS

NEWS = 6
"""Most new documents and entries shown."""

SAVED = 6
"""Most saved searches shown."""

LOOKED_AT = 30
"""Newest written entries, and newest chunks of each new document, whose titles and headings become questions."""

QUESTIONS = 6
"""Most questions shown."""

FEW = 3
"""Questions in one language, below which those in others follow."""

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
    language = find_language(visit.request.headers.get("accept-language", ""))
    return Start(news[:NEWS], saved.items, find_questions(newest, language))


def find_language(accepted: str) -> str | None:
    """The name of the language that a browser prefers, as entries have it; None if entries have no such language."""
    code = accepted.split(",")[0].split(";")[0].split("-")[0].strip().lower()
    return CONFIGURATIONS.get(code)


def find_questions(entries: Iterable[Entry], language: str | None = None) -> list[str]:
    """Titles and headings to search for, in this language or else in that of most of them: real questions first, then
    at most one of each document in turn. Few in one language are followed by others."""
    sources: dict[object, list[Entry]] = {}
    for entry in entries:
        if _subject(entry) is not None:
            sources.setdefault(entry.asset_id or entry.entry_type, []).append(entry)
    languages = Counter(entry.language for found in sources.values() for entry in found)
    if languages[language or ""] == 0:
        language = max(languages, key=languages.__getitem__, default=None)
    own = _choose(found for entries in sources.values() if (found := [e for e in entries if e.language == language]))
    others = _choose(sources.values()) if len(own) < FEW else []
    return list(dict.fromkeys((*own, *others)))[:QUESTIONS]


def _choose(sources: Iterable[Sequence[Entry]]) -> list[str]:
    found = list(dict.fromkeys(_take_turns([[_subject(entry) or "" for entry in entries] for entries in sources])))
    return sorted(found, key=lambda title: not title.endswith("?"))


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
    return News(name_document(asset), f"/console/assets/{asset.id}", "document", asset.created_at, asset.status)


def _entry(entry: Entry) -> News:
    title = entry.title or entry.content
    return News(title, f"/console/entries/{entry.id}", entry.entry_type, entry.created_at)
