"""The keyword leg of a search, its filter, spelling correction, facets, and what to suggest when nothing is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import asyncpg

from app.contract.search import TIMES
from app.db.session import TenantSession
from app.db.statements import Statement, load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on entries as SQL/JSON paths.

    Attributes:
        path: a predicate on the metadata of an entry; the variable `entry` has its other fields.
        values_json: the other variables.
        fields: bits of the fields in `entry`, as SQL's `entry_fields` numbers them.
        indexed: a predicate that an index answers, and the metadata of every admitted entry fulfils; None: there is
            none.
    """

    path: str
    values_json: str
    fields: int
    indexed: str | None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A word or phrase that entries must not have.

    Attributes:
        term: the word as the caller wrote it.
        query: its lexemes in all languages of the tenant; None: it has none.
        typed: a pattern for the word with the hyphen before it, which an entry about a command has.
    """

    term: str
    query: str | None
    typed: str | None


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """The conditions of a search on entries, without the text; None matches all. The one table of filters.

    A condition has the name of the field of `SearchQuery` that sets it. Those from `include_superseded` to `metadata`,
    which is JSON, are the columns of SQL's `entry_filter` in its order. Times are half open: from `…_after` on, and
    before `…_before`. The query sets `excluded`, and for the keyword leg `required`, the lexemes of its phrases.
    """

    include_superseded: bool = False
    role: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    all_tags: bool = False
    entry_type: tuple[str, ...] | None = None
    min_confidence: float | None = None
    scope: str | None = None
    source: str | None = None
    asset_id: tuple[UUID, ...] | None = None
    metadata: str | None = None
    filter: Condition | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    as_of: datetime | None = None
    excluded: tuple[Exclusion, ...] = ()
    required: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether every entry that is visible, or was at `as_of`, passes."""
        return self == EntryFilter(include_superseded=self.include_superseded, as_of=self.as_of)

    def without(self, *names: str) -> EntryFilter:
        """The filter without the conditions of these names of FILTERS."""
        return replace(self, **{field: DEFAULTS[field] for name in names for field in FILTERS[name]})

    def split(self) -> dict[str, EntryFilter]:
        """Each condition by itself, in the order of FILTERS."""
        values = {name: {field: getattr(self, field) for field in FILTERS[name]} for name in FILTERS}
        return {
            name: EntryFilter(**given)
            for name, given in values.items()
            if any(value != DEFAULTS[field] for field, value in given.items())
        }

    def as_row(self) -> tuple[Any, ...]:
        """The composite value for Postgres."""
        return (
            *(getattr(self, name) for name in PLAIN),
            _make_range(self.created_after, self.created_before),
            _make_range(self.updated_after, self.updated_before),
            *((c.path, c.values_json, c.fields, c.indexed) if (c := self.filter) else (None,) * 4),
            self.as_of,
            *(([e.query for e in self.excluded], [e.typed for e in self.excluded]) if self.excluded else (None, None)),
            self.required,
        )


def _make_range(start: datetime | None, end: datetime | None) -> asyncpg.Range[datetime] | None:
    return None if start is None and end is None else asyncpg.Range(start, end)


DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(EntryFilter)}
OF_QUERY = ("excluded", "required")
PLAIN = tuple(name for name in DEFAULTS if name not in (*TIMES, "filter", "as_of", *OF_QUERY))

FILTERS: Mapping[str, tuple[str, ...]] = {
    name: (name, "all_tags") if name == "tags" else (name,)
    for name in DEFAULTS
    if name not in ("include_superseded", "all_tags", "as_of", *OF_QUERY)
}
"""The filters of a search, each with the fields of EntryFilter that it sets.

Receipts, relaxations and the reasons why an entry is not found name them in this order.
"""


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A registered model in SQL: literals that select its partial index."""

    model_id: int
    dimensions: int

    def literal(self, statement: Statement) -> Statement:
        """The statement for the vectors of the model."""
        return statement.literal(model_id=self.model_id, dimensions=self.dimensions)


@dataclass(frozen=True, slots=True)
class Sought:
    """What entries are compared with, under a filter: the words of `query`, and a vector if it has one."""

    space: VectorSpace
    query: str
    vector: Any | None
    entry_filter: EntryFilter

    def as_parameters(self) -> dict[str, Any]:
        """The parameters of statements that compare."""
        return {"query": self.query, "vector": self.vector, "filter": self.entry_filter.as_row()}


@dataclass(frozen=True, slots=True)
class Repairs:
    """Replacements of words of the query that no entry has.

    Attributes:
        corrections: misspelt lexemes, each with a lexeme that resembles it.
        prefix: what words begin with that may be meant by the last word of the query.
        incomplete: the lexeme of that word.
        parts: words of the query that longer words contain.
    """

    corrections: Mapping[str, str] = field(default_factory=dict)
    prefix: str | None = None
    incomplete: str | None = None
    parts: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.corrections or self.parts) or self.prefix is not None


NO_REPAIRS = Repairs()


class Compound(NamedTuple):
    """Words of the query, and the lexemes of their parts, compound or other spelling in entries of the language."""

    language: str
    asked: Sequence[str]
    lexemes: Sequence[str]


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """The query of the keyword leg.

    Attributes:
        text: the query as given by the caller.
        limit: number of entries to find.
        budget: postings up to which every entry with one of the words is scored.
        phrases: quoted parts of the text.
        repairs: what to search for in place of words that no entry has.
        compound_words: the words that may be compounds or parts of one, in order.
        parts: the words that longer words may contain.
        spellings: words of the text, each with another spelling to search for as well.
        synonyms: terms that may be in the text, each with a term to search for as well.
        whole: search only for the identifiers in the text, not for words that are parts of them.
        compared: a vector that the entries found are compared with, and its space.
    """

    text: str
    entry_filter: EntryFilter
    limit: int
    budget: int
    phrases: tuple[str, ...] = ()
    repairs: Repairs = NO_REPAIRS
    compound_words: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    spellings: tuple[tuple[str, str], ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()
    whole: bool = False
    compared: tuple[VectorSpace, Any] | None = None


class LegHit(NamedTuple):
    """An entry found by one leg; `value` is a cosine similarity or a BM25 score.

    `pattern` is the same in near-duplicates; None if the entry can have none.
    """

    entry_id: UUID
    updated_at: datetime
    value: float
    pattern: int | None = None


@dataclass(frozen=True, slots=True)
class KeywordMatches:
    """The entries found by the words of a query, best first.

    Attributes:
        total: number of entries with at least one of the words that were scored.
        complete: whether every entry with one of the words was scored.
        full_match: BM25 of an entry that covers the whole query.
        entries: number of the tenant's entries.
        unknown: lexemes of the query that no entry has; None if nothing was found.
        compounds: compounds, parts of compounds and other spellings that entries have.
        synonyms: terms of the query, each with a synonym that entries have.
        alternatives: queries for what entries have in place of words of the query.
        cosines: the similarity of each of them that has a vector; None if they were not compared with one.
    """

    hits: Sequence[LegHit]
    total: int = 0
    complete: bool = True
    full_match: float = 0.0
    entries: int = 0
    unknown: Sequence[str] | None = None
    compounds: Sequence[Compound] = ()
    synonyms: Sequence[Sequence[str]] = ()
    alternatives: Sequence[str] = ()
    cosines: Mapping[UUID, float] | None = None


CORRECTION_WEIGHT = COMPLETION_WEIGHT = COMPOUND_WEIGHT = 0.7
"""The weight of a replacement of a word, relative to the word itself."""

PART_WEIGHT = 0.2
"""The same for longer words that contain it: an entry with the word itself comes first, unless it is much longer."""

SYNONYM_WEIGHT = 0.9
"""The same for a synonym: the caller's own word comes first among equals."""

COMPOUND_LIMIT = 3
"""Words of a query, stop words apart, up to which compounds, their parts and longer words are looked for."""

LEAST_PREFIX = 3
"""Letters from which on a word is completed."""


async def match_words(session: TenantSession, query: KeywordQuery) -> KeywordMatches:
    """The best entries by BM25."""
    repairs = query.repairs
    statement, vector = SQL["keyword_leg"], dict[str, Any]()
    if query.compared is not None:
        space, vector["vector"] = query.compared
        statement = space.literal(SQL["compared_keyword_leg"])
    rows = await session.fetch(
        statement,
        query=query.text,
        words="" if query.whole else query.text,
        phrases=list(query.phrases),
        misspelt=list(repairs.corrections),
        corrections=list(repairs.corrections.values()),
        correction_weight=CORRECTION_WEIGHT,
        completions=[] if repairs.prefix is None else [repairs.prefix],
        completed=[] if repairs.prefix is None else [repairs.incomplete],
        completion_weight=COMPLETION_WEIGHT,
        compound_words=list(query.compound_words),
        compound_weight=COMPOUND_WEIGHT,
        compound_limit=COMPOUND_LIMIT,
        parts=list(query.parts),
        unknown_parts=list(repairs.parts),
        part_weight=PART_WEIGHT,
        spelt=[term for term, _ in query.spellings],
        spellings=[spelling for _, spelling in query.spellings],
        synonym_terms=[term for term, _ in query.synonyms],
        synonyms=[synonym for _, synonym in query.synonyms],
        synonym_weight=SYNONYM_WEIGHT,
        filter=query.entry_filter.as_row(),
        limit=query.limit,
        budget=query.budget,
        **vector,
    )
    cosines = None
    if query.compared is not None:
        cosines = {row[0]: cosine for row in rows if (cosine := row["cosine"]) is not None}
    if not rows:
        return KeywordMatches([], cosines=cosines)
    if (first := rows[0])["entry_id"] is None:
        return KeywordMatches([], complete=first["complete"], cosines=cosines)
    hits = [LegHit(*row[:4]) for row in rows]
    return KeywordMatches(
        hits,
        first["candidates"],
        first["complete"],
        first["best"],
        first["entries"],
        # A word in capitals is also asked for in lowercase.
        [lexeme for lexeme in first["unknown"] if lexeme == lexeme.lower()],
        [Compound(*compound) for compound in first["compounds"] or ()],
        first["synonyms"] or (),
        first["alternatives"] or (),
        cosines,
    )


async def list_ignored_words(session: TenantSession, query: str) -> Sequence[str]:
    """The stop words of the query that are not searched for in any language of the tenant."""
    ignored: Sequence[str] = await session.fetch_value(SQL["ignored_words"], query=query)
    return ignored


class Operators(NamedTuple):
    """The lexemes of a query's operators in the languages of the tenant, as queries; None: there are none.

    `excluded` has one for each excluded word, and `required` is for entries that have all phrases.
    """

    excluded: Sequence[str | None]
    required: str | None


async def find_operators(session: TenantSession, excluded: Sequence[str], phrases: Sequence[str]) -> Operators:
    """Find the lexemes of excluded words and of phrases."""
    return await session.fetch_only_as(Operators, SQL["operators"], excluded=list(excluded), phrases=list(phrases))


async def rehearse(session: TenantSession, vectors: Mapping[VectorSpace, Any]) -> None:
    """Run the statements of the keyword leg once and discard the result, so that the connection has their plans."""
    nothing = EntryFilter()
    await session.fetch(SQL["rehearse_keyword_leg"], filter=nothing.as_row())
    for compared in (None, *vectors.items()):
        await match_words(session, KeywordQuery("rehearsal", nothing, 1, 1, compared=compared))


async def find_repairs(
    session: TenantSession,
    text: str,
    unknown: Sequence[str] | None,
    *,
    last_word: str | None,
    last_identifier: str | None,
    parts: Sequence[str],
    corrects: bool,
    strict: bool,
) -> Repairs:
    """Find replacements of words that no entry has: the tenant's most similar words, or longer ones.

    `unknown` restricts the lexemes to check; None checks all lexemes of the query. Longer words may contain one of
    `parts`. With `corrects`, the longest five of the misspelt ones are corrected; with `strict`, only by a word that
    differs by one letter.
    """
    rows = await session.fetch(
        SQL["repairs"],
        query=text,
        unknown=None if unknown is None else list(unknown),
        last_word=last_word,
        last_identifier=last_identifier,
        least_prefix=LEAST_PREFIX,
        parts=list(parts),
        compound_limit=COMPOUND_LIMIT,
        corrects=corrects,
        strict=strict,
    )
    prefix, incomplete = next(((row["prefix"], row["word"]) for row in rows if row["prefix"]), (None, None))
    corrections = {row["word"]: row["correction"] for row in rows if row["correction"]}
    return Repairs(corrections, prefix, incomplete, [row["part"] for row in rows if row["part"]])


async def completed_words(session: TenantSession, prefix: str, ids: Sequence[UUID], limit: int) -> Sequence[str]:
    """Lexemes of these entries that begin with the prefix, most frequent first."""
    return await session.fetch_column(SQL["completed_words"], prefix=prefix, ids=list(ids), limit=limit)


@dataclass(frozen=True, slots=True)
class LexemeInText:
    """A lexeme, and an entry that has it; `content` is its first 20,000 characters."""

    lexeme: str
    language: str
    title: str | None
    content: str


async def entries_with_lexemes(
    session: TenantSession, lexemes: Sequence[str], ids: Sequence[UUID]
) -> Sequence[LexemeInText]:
    """For each of the lexemes, the first of these entries that has it."""
    return await session.fetch_as(LexemeInText, SQL["entries_with_lexemes"], lexemes=list(lexemes), ids=list(ids))


async def filtered_ids(session: TenantSession, entry_filter: EntryFilter, limit: int) -> list[UUID]:
    """Ids of entries that pass the filter, at most `limit`."""
    ids: list[UUID] = await session.fetch_value(SQL["filtered_ids"], filter=entry_filter.as_row(), limit=limit)
    return ids


async def count_readable(session: TenantSession) -> int:
    """Count the entries that the caller may read at least, without reading them."""
    return int(await session.fetch_value(SQL["count_readable"]))


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """The conditions under which an entry matches a search.

    Attributes:
        text: the query, if entries are compared by their words; None: they are not.
        words: the words of the query; empty if it is an identifier that has to match as a whole.
        vector: the query's vector, if all passages are compared.
        ids: all entries that pass the filter, if they are few.
        near: matches that are known already.
        alternatives: queries for what entries can have in place of words.
        pending_only: of the entries with a word of the query, only those without a vector match.
        required: a query that entries with a word of the query must match.
    """

    text: str | None
    words: str
    vector: Any | None
    max_distance: float
    entry_filter: EntryFilter
    ids: Sequence[UUID] | None = None
    near: Sequence[UUID] = ()
    pending_only: bool = False
    alternatives: Sequence[str] = ()
    required: str | None = None


@dataclass(frozen=True, slots=True)
class CountedValue:
    """The number of matches that have a value; of `other` and `missing` ones, without it.

    Without a name, it is the number of all matches.
    """

    name: str | None
    value: str | int | float | bool | None
    count: int
    kind: Literal["value", "other", "missing"]
    complete: bool


async def count_values(
    session: TenantSession,
    space: VectorSpace,
    query: MatchQuery,
    names: Sequence[str],
    keys: Sequence[str],
    *,
    most: int,
    values: int,
    longest: int,
) -> list[CountedValue]:
    """The values of the fields `names` and of the metadata `keys` among the matches; `most` bounds those by words.

    At most `values` of each are returned, none longer than `longest` characters; the others are counted together.
    """
    return await session.fetch_as(
        CountedValue,
        space.literal(SQL["facets"]),
        query=query.text,
        words=query.words,
        vector=query.vector,
        max_distance=query.max_distance,
        filter=query.entry_filter.as_row(),
        filter_of_words=replace(query.entry_filter, required=query.required).as_row(),
        ids=None if query.ids is None else list(query.ids),
        near=list(query.near),
        pending_only=query.pending_only,
        alternatives=list(query.alternatives),
        names=list(names),
        keys=list(keys),
        most=most,
        values=values,
        longest=longest,
    )


@dataclass(frozen=True, slots=True)
class SimilarTag:
    """A tag of the tenant, and its trigram similarity to a word; None where that is not above the least."""

    tag: str
    likeness: float | None


@dataclass(frozen=True, slots=True)
class SimilarLexeme(LexemeInText):
    """A lexeme that resembles a word, and an entry that has it."""

    likeness: float


async def suggest_tags(session: TenantSession, words: Sequence[str], least: float, limit: int) -> Sequence[SimilarTag]:
    """Tags that resemble the words, then the tenant's most used ones."""
    return await session.fetch_as(SimilarTag, SQL["suggest_tags"], words=list(words), least=least, limit=limit)


async def suggest_lexemes(
    session: TenantSession, query: str, entry_filter: EntryFilter, least: float, limit: int
) -> Sequence[SimilarLexeme]:
    """Lexemes that resemble words of the query, the most alike first, each with an entry that passes the filter."""
    return await session.fetch_as(
        SimilarLexeme, SQL["suggest_lexemes"], query=query, filter=entry_filter.as_row(), least=least, limit=limit
    )
