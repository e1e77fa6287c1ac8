"""The keyword leg: BM25 over the words of the query, with replacements for words that no entry has."""

import logging
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from app.contract.validation import same_fields
from app.db.queries import search as db
from app.db.queries.search import NO_REPAIRS, EntryFilter, Exclusion, KeywordMatches, KeywordQuery, Repairs
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import find_spellings, find_synonyms, is_identifier
from app.knowledge.words import find_words, is_run, remove_runs, spell
from app.telemetry.tracing import span

SPELLING_HITS = 20
"""The best hits, among which an entry is looked for that has a replacement in full."""

CORRECTED_WORDS = 5
"""Words of a query, up to which a misspelt one among known words is corrected: in a longer one these suffice."""

COMPLETIONS = 5
"""Most words that are shown for an incomplete one; all that begin with it are found."""

COMPOUND_WORDS = 16
"""Words of a query that may be compounds or parts of one, the first ones."""
LATIN = re.compile(r"[^\W\d_\u0250-\U0010ffff]{3,30}")
"""Such a word: the languages with compounds are written in Latin letters."""

PART = re.compile(r"[^\W\d_]{5,30}")
"""A word that longer words may contain; a shorter one is in too many."""

WORD = re.compile(r"[^\W_]+(?:[-._/:][^\W_]+)*")
"""A word or identifier, which is one backwards, too."""
LONGEST_COMPLETED = 200
"""Characters of a last word that may be the beginning of another."""


@dataclass(frozen=True, slots=True)
class Replacements:
    """What was searched for in place of words of the query, as the best hits spell it.

    Attributes:
        corrections: misspelt words, each with its correction.
        completions: the beginning of a word, with words that begin with it.
        compounds: words of the query with what else stands for them: a compound its parts, parts their compound,
            a part longer words, and a word in another spelling.
        synonyms: terms of the query, each with its synonyms.
    """

    corrections: Mapping[str, str] = field(default_factory=dict)
    completions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    compounds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    synonyms: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        """All words that were also searched for."""
        yield from self.corrections.values()
        for words in (*self.completions.values(), *self.compounds.values(), *self.synonyms.values()):
            yield from words


def compound_words(text: str) -> tuple[str, ...]:
    """The words of a query that may be compounds or parts of one, in order."""
    words = (word for word in find_words(text.lower()) if LATIN.fullmatch(word))
    return tuple(islice(words, COMPOUND_WORDS))


def word_parts(text: str) -> tuple[str, ...]:
    """The words of a query that longer words may contain, in order: of a longer query none."""
    words = dict.fromkeys(find_words(text.lower()))
    if len(words) > COMPOUND_WORDS:
        return ()
    return tuple(word for word in words if PART.fullmatch(word) and not is_run(word))


async def find_repairs(session: TenantSession, text: str, found: KeywordMatches, *, corrects: bool = True) -> Repairs:
    """Find what the last word may be the beginning of and, with `corrects`, corrections of misspelt words.

    If most words of a long query are known, there are no corrections.
    """
    spelt = remove_runs(text)
    unknown = None if found.unknown is None else [word for word in found.unknown if not is_run(word)]
    if not spelt.strip() or not (unknown or unknown is None):
        return NO_REPAIRS
    words = len(spelt.split())
    mostly_known = bool(found.hits) and 2 * len(unknown or ()) < words
    corrects = corrects and (not mostly_known or words <= CORRECTED_WORDS)
    word = _last_word(text)
    parts = word_parts(spelt)
    if not corrects and not word and not parts:
        return NO_REPAIRS
    return await db.find_repairs(
        session,
        spelt,
        unknown,
        last_word=find_words(word)[-1] if word else None,
        last_identifier=word if is_identifier(word) else None,
        parts=parts,
        corrects=corrects,
        # If most words are known, an unknown one may be right: only a word that is nearly the same corrects it.
        strict=mostly_known,
    )


def _last_word(text: str) -> str:
    """The last word or identifier of a query, in lower case; empty if the query ends in punctuation."""
    # Backwards, so that a long query is read once.
    last = WORD.match(text[::-1])
    if last is None or len(last[0]) > LONGEST_COMPLETED or is_run(text[-1]):
        return ""
    return last[0][::-1].lower()


async def describe_replacements(
    session: TenantSession, query: str, repairs: Repairs, found: KeywordMatches
) -> Replacements:
    """Describe what was searched for as the hits spell it, since lexemes are stems."""
    synonyms: dict[str, list[str]] = {}
    for term, synonym in found.synonyms:
        synonyms.setdefault(term, []).append(synonym)
    if not repairs and not found.compounds:
        return Replacements(synonyms=synonyms)
    ids = [hit.entry_id for hit in found.hits[:SPELLING_HITS]]
    prefix, corrections = repairs.prefix, repairs.corrections
    longer = await db.completed_words(session, prefix, ids, COMPLETIONS) if prefix else ()
    wanted = {*corrections.values(), *longer, *(lexeme for c in found.compounds for lexeme in c.lexemes)}
    texts = {entry.lexeme: entry for entry in await db.entries_with_lexemes(session, [*wanted], ids)}

    def show(lexeme: str) -> str:
        if (entry := texts.get(lexeme)) is None:
            return lexeme
        return spell(lexeme, entry.language, f"{entry.title or ''} {entry.content}") or lexeme

    def recall(misspelt: str, meant: str) -> str:
        return (spell(misspelt, texts[meant].language, query) if meant in texts else None) or misspelt

    compounds: dict[str, list[str]] = {}
    told = set(longer)
    for compound in found.compounds:
        # Of many longer words, those that hits have; a completion, or the compound of two words, is not repeated.
        lexemes = [lexeme for lexeme in compound.lexemes if lexeme in texts] or compound.lexemes
        if not told.issuperset(lexemes):
            compounds.setdefault(" ".join(compound.asked), []).extend(map(show, lexemes))
            told.update(lexemes if len(compound.asked) > 1 else ())
    return Replacements(
        {recall(misspelt, meant): show(meant) for misspelt, meant in corrections.items()},
        {prefix: list(dict.fromkeys(map(show, longer)))} if prefix and longer else {},
        {asked: list(dict.fromkeys(words)) for asked, words in compounds.items()},
        synonyms,
    )


COVERAGE_EXPONENT = 1.5
"""Exponent of BM25 over `KeywordHits.scale` in score fusion: an entry with half of a short query's words, by weight,
counts 35 % of one with all. Entries that share few words with a question rarely answer it."""

FULL_WORD = 2.2 * 2 / (2 + 1.2)
"""BM25 of a word that an entry of mean length has twice, over the word's inverse document frequency."""

RARE_WORDS = 3
"""Number of words, each in a single entry, that are worth a cosine of 1 however long the query is. Between 2 and 4,
nDCG@10 of seven collections differs by less than 0.025."""

log = logging.getLogger("app.knowledge.search")

KeywordStrategy = Literal["whole_identifier", "exact", "heaviest_words_first"]
"""Which entries were scored: those with the whole identifier, all with one of the words, or those in which words of the
query weigh much together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordHits(KeywordMatches):
    """The hits of the leg, best first, and facts about the search.

    Attributes:
        whole: whether the query is an identifier that these entries contain as a whole.
        replacements: what was searched for in place of words of the query.
        ignored: stop words of the query that were not searched for, if the search is explained.
        only_pending: whether the search uses only the hits that have no vector yet, as in mode `semantic`.
    """

    whole: bool
    replacements: Replacements
    seconds: float
    ignored: Sequence[str] = ()
    only_pending: bool = False

    @property
    def scale(self) -> float:
        """The BM25 score that counts as much as a cosine of 1 in score fusion; 0 if nothing was found.

        It is a full match of the query, or the score of an entry that exceeds it because it repeats the words. Beyond
        RARE_WORDS words that only one entry has, more words of a long query add less: see `docs/ranking.md`.
        """
        if not self.hits:
            return 0.0
        full = max(self.full_match, self.hits[0].value)
        rare = FULL_WORD * math.log(1 + (max(self.entries, 1) - 0.5) / 1.5)
        return float((math.sqrt(full) * min(full, RARE_WORDS * rare)) ** (1 / COVERAGE_EXPONENT))

    @property
    def strategy(self) -> KeywordStrategy:
        """How the entries to score were chosen."""
        if self.whole:
            return "whole_identifier"
        return "exact" if self.complete else "heaviest_words_first"

    @property
    def is_cut(self) -> bool:
        """Whether entries may match that are not among the hits."""
        return not self.complete or self.total > len(self.hits)


async def apply_operators(session: TenantSession, plan: Plan) -> Plan:
    """The plan with the lexemes of the query's operators, as the tenant's languages have them."""
    excluded, phrases = plan.asked.excluded, plan.asked.phrases
    if not excluded and not phrases:
        return plan
    found = await db.find_operators(session, excluded, phrases)
    exclusions = tuple(
        # Where a command has an option, a letter or digit neither precedes its hyphen nor follows its name.
        Exclusion(term, query, None if " " in term else rf"(?:^|[^[:alnum:]])-{re.escape(term)}(?![[:alnum:]])")
        for term, query in zip(excluded, found.excluded, strict=True)
        if query is not None
    )
    return replace(plan, entry_filter=replace(plan.entry_filter, excluded=exclusions), required=found.required)


def _make_query(plan: Plan, entry_filter: EntryFilter, wanted: int) -> KeywordQuery:
    """The words of the plan's query, and what may stand in their place."""
    text = plan.asked.text
    return KeywordQuery(
        text,
        entry_filter,
        wanted,
        plan.keyword_budget,
        compound_words=compound_words(text),
        parts=word_parts(text),
        spellings=find_spellings(text),
        synonyms=find_synonyms(plan.tenant.settings.synonyms, text),
    )


async def search_words(session: TenantSession, plan: Plan, wanted: int, vector: Vector | None = None) -> KeywordHits:
    """Find the `wanted` entries whose words match the query best.

    With `vector`, they are compared with it in the same statement if score fusion needs their cosines.
    """
    started = time.perf_counter()
    text = plan.asked.text
    asked = replace(
        _make_query(plan, plan.keyword_filter, wanted),
        phrases=plan.asked.phrases,
        compared=None if vector is None or not plan.compares_keyword_hits else (plan.tenant.space, vector),
    )
    found, repairs = KeywordMatches([]), NO_REPAIRS
    with span("keyword") as seen:
        if is_identifier(text):
            # Entries with a part of the identifier count only if no entry has it as a whole.
            only = replace(asked, whole=True, compound_words=(), parts=(), spellings=(), synonyms=())
            found = await db.match_words(session, only)
            named = tuple(pair for pair in asked.synonyms if pair[0].casefold() == text.casefold())
            if found.hits and named:
                found = await db.match_words(session, replace(only, synonyms=named))
        whole = bool(found.hits)
        if not whole:
            found = await db.match_words(session, asked)
            if found.unknown or not found.hits:
                repairs = await find_repairs(session, text, found)
                if repairs:
                    found = await db.match_words(session, replace(asked, repairs=repairs))
        replacements = await describe_replacements(session, text, repairs, found)
        ignored = await db.list_ignored_words(session, text) if plan.query.explain and not whole else ()
        seen.set(hits=len(found.hits), matches=found.total)
    log.debug("keyword leg: %d entries of %d", len(found.hits), found.total)
    seconds = time.perf_counter() - started
    return KeywordHits(
        **same_fields(found, KeywordHits), whole=whole, replacements=replacements, ignored=ignored, seconds=seconds
    )


async def find_alternatives(session: TenantSession, plan: Plan) -> Sequence[str]:
    """Alternative queries for words of the plan's query: synonyms, compounds and parts, other spellings, completions.

    For an identifier there are only synonyms: it is searched for as a whole.
    """
    asked = _make_query(plan, EntryFilter(include_superseded=True), 1)
    text = asked.text
    if is_identifier(text) and not asked.synonyms:
        return ()
    found = await db.match_words(session, asked)
    if found.unknown or not found.hits:
        repairs = await find_repairs(session, text, found, corrects=False)
        if repairs:
            found = await db.match_words(session, replace(asked, repairs=repairs))
    return found.alternatives
