"""Read what a query contains: operators, identifiers, entry types, and the filter, which SQL gets compiled."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import islice
from typing import Any

import orjson

from app.contract.filters import FIELDS, FieldPath, Group, Negation, Term, Test, read_filter
from app.contract.search import SearchQuery
from app.contract.settings import read_synonyms
from app.contract.text import PICTURES
from app.db.queries.search import Condition, EntryFilter
from app.knowledge.words import INVISIBLE, find_words, fold, is_run, join_parts, unify

QUOTED = re.compile(
    r'(?<![\w"])"([^"\s][^"]{1,300})"(?![\w}\]:])|„([^„“”]{3,300})[“”]|“([^“”]{2,300})”|«([^«»]{2,300})»|»([^«»]{2,300})«'
    r"|「([^「」]{2,300})」|『([^『』]{2,300})』"
)
"""A text in quotes, which are not those of a JSON key or value."""
MAX_PHRASES = 5
MAX_EXCLUDED = 10
"""More excluded words are searched for as they stand."""

EXCLUDED = re.compile(
    rf'(?:(?<=\s)|^)-(?:({QUOTED.pattern})|((?:[^\W\d_]|[{PICTURES}]|\.[A-Za-z])[^\s"]*?))[.,;:!?)]*(?=\s|$)'
)
"""A hyphen after a blank or at the start, directly before a word that begins with a letter or a picture, a name such as
.NET, or a phrase."""

COMMAND = re.compile(r"(?:(?<=\s)|^)(?:--[^\W_]|-[A-Za-z](?=\s|$))")
"""An option as in a command line: --all, or -n."""
IDENTIFIER = re.compile(r"[^\W_]+(?:[-._/:][^\W_]+)+")


def is_identifier(query: str) -> bool:
    """Whether the whole query is one identifier, such as KNOW-004, vercel.json or ERR_CONN_RESET."""
    return IDENTIFIER.fullmatch(query) is not None and any(c.isdigit() or c in "_." for c in query)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query without its operators.

    Attributes:
        text: what entries are compared with: the query without excluded words.
        phrases: quoted parts of several words, at most five.
        excluded: words and phrases that no hit has.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


def read_operators(query: str) -> Asked:
    """Read the phrases and the excluded words of a query.

    Pasted text has no operators: text with an option as in a command line, or with several lines. Nor has a query of
    excluded words only.
    """
    if "\n" in query or COMMAND.search(query):
        return Asked(query)
    found = list(EXCLUDED.finditer(query))
    text = EXCLUDED.sub(" ", query) if found else query
    if len(found) > MAX_EXCLUDED or not find_words(text):
        return Asked(query)
    excluded = (_unquote(match) if match[1] else str(match[9]) for match in found)
    return Asked(" ".join(text.split()) if found else text, quoted_phrases(text), tuple(dict.fromkeys(excluded)))


def _unquote(match: re.Match[str]) -> str:
    return "".join(text or "" for text in match.groups()[1:8]).strip()


def quoted_phrases(query: str) -> tuple[str, ...]:
    """The parts of a query in quotes that have several words, at most five."""
    found = ("".join(groups).strip() for groups in QUOTED.findall(query))
    return tuple(dict.fromkeys(p for p in found if len(words := find_words(p)) > 1 or any(map(is_run, words))))[
        :MAX_PHRASES
    ]


MAX_SYNONYM_PAIRS = 50
"""Most synonyms of one query that are looked for."""


def find_synonyms(rules: Sequence[str], text: str) -> tuple[tuple[str, str], ...]:
    """Pairs of a term that may be in a text, and its synonym. Whether its words are there is for the database to find:
    here each needs a word that begins alike."""
    if not rules:
        return ()
    begun = {_begin(word) for word in find_words(text)}
    found = (
        pair
        for words, pairs in _index_synonyms(tuple(rules))
        if all(_begin(word) in begun or (is_run(word) and word in text) for word in words)
        for pair in pairs
    )
    return tuple(islice(dict.fromkeys(found), MAX_SYNONYM_PAIRS))


def _begin(word: str) -> str:
    return fold(unify(word).lower(), "simple")[:2]


@lru_cache(maxsize=64)
def _index_synonyms(rules: tuple[str, ...]) -> Sequence[tuple[Sequence[str], Sequence[tuple[str, str]]]]:
    """The words of each term, and its pairs."""
    terms: dict[str, list[tuple[str, str]]] = {}
    for rule in rules:
        for pair in read_synonyms(rule):
            terms.setdefault(pair[0], []).append(pair)
    return [(find_words(term), pairs) for term, pairs in terms.items()]


MOST_SPELLINGS = 8
"""Most words of one query that are looked for in other spellings, and of its first 2,000 characters."""

CHAIN = re.compile(r"[^\W_]+(?:[-._/:,'\u2019][^\W_]+)*")
JOINED = re.compile(
    r"(?=.{3,50}$)(?:(?![-\d_]+$)[^\W_]+(?:[-_][^\W_]+){1,3}|[^\W\d_][^\W_]*(?:[./][^\W\d_][^\W_]*|/\d+)"
    r"|\d{1,3}(?:[,'\u2019]\d{3})+|\d{1,3}(?:\.\d{3}){2,})"
)
"""Words joined by hyphens or underscores, Node.js, HTTP/2 and 1,000,000; not paths, versions, dates and times."""

CAMEL = re.compile(
    r"(?<=[a-z\u00df-\u00f6\u00f8-\u00ff])(?=[A-Z\u00c0-\u00d6\u00d8-\u00de][^\W\d_])"
    r"|(?<=[A-Z]{2})(?=[A-Z][a-z]{2})|(?<=[0-9])(?=[A-Z][a-z]{2})"
)
"""Where a part of a name begins, as in loadTariffTable and XMLHttpRequest: the places of `parted_words` in SQL."""
LEVEL = re.compile(
    r"(?<![^\W_])([A-Za-z]{2,})(?=[0-9]+(?![^\W_]))"
    r"|(?<![^\W_])([0-9]+)(?=(?!(?:st|nd|rd|th)\b)[A-Za-z]{1,5}(?![^\W_]))"
)
"""The first part of a name with a number, or of a number with its unit: HTTP404 and 10GB."""
ZEROS = re.compile(r"(?<![.\w])(?:0[Xx](?=[0-9A-Fa-f]{2})|0+(?=[1-9][0-9])|00+(?=[1-9]\b))")
LANGUAGE = re.compile(r"([a-z]{1,6})-?lang", re.IGNORECASE)
"""The name of a programming language that is a common word: golang."""
LONG_NUMBER = re.compile(r"[1-9][0-9]{3,11}")
THOUSANDS = re.compile(r"(?<=[0-9])(?=(?:[0-9]{3})+$)")

BLANKS = "[ \u00a0\u202f]"
APART = re.compile(
    rf"\b(?=([1-9][0-9]{{0,2}}(?:{BLANKS}[0-9]{{3}})+|[0-9]+{BLANKS}[A-Za-z]{{1,5}}|[A-Za-z]{{2,20}}{BLANKS}[0-9]+)\b)"
)
"""Two words that are often written as one, since one of them is a number, and numbers with blanks."""
BLANK = re.compile(BLANKS)


def find_spellings(text: str) -> tuple[tuple[str, str], ...]:
    """Words of a text, each with another spelling that entries may have: dry-run with dryrun, 10GB with 10 GB and the
    reverse, loadTariffTable with its parts, and 1000000 with 1 000 000, which stands for 1,000,000 too.
    """
    return tuple(islice(dict.fromkeys(_spell_otherwise(text[:2000].translate(INVISIBLE))), MOST_SPELLINGS))


def _spell_otherwise(text: str) -> Iterator[tuple[str, str]]:
    for word in CHAIN.findall(text):
        if JOINED.fullmatch(word):
            yield word, join_parts(word)
        parts = ZEROS.sub("", CAMEL.sub(" ", LEVEL.sub(r"\1\2 ", word)))
        if parts != word:
            yield word, parts
        if language := LANGUAGE.fullmatch(word):
            yield word, language[1].capitalize()
        if LONG_NUMBER.fullmatch(word):
            yield word, THOUSANDS.sub(" ", word)
    for words in APART.findall(text):
        yield words, BLANK.sub("", words)


def needs_vector(query: SearchQuery) -> bool:
    """Whether the query has to be embedded."""
    return query.mode != "keyword" and query.query_embedding is None and query.cursor is None


def list_types(entry_type: str | Sequence[str]) -> tuple[str, ...]:
    """The entry types asked for: one, or several."""
    return (entry_type,) if isinstance(entry_type, str) else tuple(entry_type)


READ: Mapping[str, Callable[[Any], Any]] = {
    "role": lambda role: ("all",) if role == "all" else (role, "all"),
    "entry_type": list_types,
    "metadata": lambda given: orjson.dumps(given).decode() if given else None,
    "filter": lambda given: compile_filter(term) if (term := read_filter(given)[0]) is not None else None,
}
"""Conditions that SQL has in another form than the request; the others are copied."""
COPIED = tuple(field.name for field in fields(EntryFilter) if field.name not in ("all_tags", "excluded", "required"))


def filter_of(query: SearchQuery) -> EntryFilter:
    """The filter for the SQL of the legs."""
    given = {name: value for name in COPIED if (value := getattr(query, name)) is not None}
    values = {name: READ[name](value) if name in READ else value for name, value in given.items()}
    return EntryFilter(**values, all_tags=query.tags_match == "all")


POSITIONS = {name: position for position, name in enumerate(FIELDS)}
SIGNS = {"eq": "==", "in": "==", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def compile_filter(term: Term) -> Condition:
    """Return the condition for the database."""
    paths = _Paths()
    path = paths.write(term, negated=False)
    return Condition(
        path=path, values_json=_json(paths.values), fields=paths.fields, indexed=_write_indexed(term, negated=False)
    )


class _Paths:
    """Writes the path of a filter, and collects the values of its variables.

    In lax mode, a path looks into lists, one level deep: at each key into the objects of a list, and at its end into
    the values of a list. A test of values of different types is unknown; below a negation that counts as false, so that
    a term and its negation are never both false.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.fields = 0

    def write(self, term: Term, *, negated: bool) -> str:
        """The path of a term, or of its opposite. Negations are moved to the tests."""
        if isinstance(term, Negation):
            return self.write(term.term, negated=not negated)
        if isinstance(term, Group):
            sign = " && " if (term.operator == "and") != negated else " || "
            return f"({sign.join(self.write(part, negated=negated) for part in term.terms)})"
        if not term.path.in_metadata:
            self.fields |= 1 << POSITIONS[term.path.keys[0]]
        operator, opposite = _positive(term)
        path = _write_path(term.path)
        if operator == "exists":
            return f"(!({path} != null))" if opposite != negated else f"({path} != null)"
        name = f"v{len(self.values)}"
        self.values[name] = term.value
        test = f"({path} {SIGNS[operator]} ${name}{'[*]' if operator == 'in' else ''})"
        return f"(!{test} || {test} is unknown)" if opposite != negated else test


def _write_indexed(term: Term, *, negated: bool) -> str | None:
    """The part of the path that the index of the metadata answers: every entry that the filter admits passes it.

    An index finds values, not ranges, and needs them as literals. None if there is no such part.
    """
    if isinstance(term, Negation):
        return _write_indexed(term.term, negated=not negated)
    if isinstance(term, Group):
        parts = [_write_indexed(part, negated=negated) for part in term.terms]
        if (term.operator == "and") != negated:
            known = [part for part in parts if part is not None]
            return f"({' && '.join(known)})" if known else None
        complete = [part for part in parts if part is not None]
        return f"({' || '.join(complete)})" if len(complete) == len(parts) else None
    operator, opposite = _positive(term)
    if opposite != negated or operator not in ("eq", "in") or not term.path.in_metadata:
        return None
    path = _write_path(term.path)
    values: Sequence[Any] = term.value if isinstance(term.value, (list, tuple)) else (term.value,)
    return f"({' || '.join(f'{path} == {_json(value)}' for value in values)})"


def _positive(test: Test) -> tuple[str, bool]:
    """The operator that a path has, and whether the test is its opposite."""
    if test.operator == "ne":
        return "eq", True
    return test.operator, test.operator == "exists" and not test.value


def _write_path(path: FieldPath) -> str:
    """The path to a value: a key is a string of JSON, which SQL/JSON reads alike."""
    return "".join(["$" if path.in_metadata else "$entry", *(f".{_json(key)}" for key in path.keys)])


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
