"""The flags of a text."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain

from app.contract.vocabulary import FLAGS, Flag
from app.documents.chunking import Chunk
from app.documents.parsed import ParsedDocument
from app.documents.screening.characters import FINDERS, replace_lookalikes
from app.documents.screening.rules import Finding, Hints, RuleSet, read_rules

WINDOW = 65_536
"""Characters that are compared at once, without another thread getting a turn: a millisecond of ordinary text."""
OVERLAP = 4_096
"""Characters that two windows share; a match that is longer can be missed."""

_STYLED = "[\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"
"""Fullwidth and mathematical letters, which are read as the letters that they resemble."""


_SPACED = re.compile(r"(?:(?<=\s)|^)(?:[^\W\d_] {1,3}){12,400}[^\W\d_](?=\s|$|[.!])")
"""Letters with spaces between them, and more between words."""
_SPACED_START = "[A-Za-z] {1,3}[A-Za-z] {1,3}[A-Za-z] {1,3}[A-Za-z] {1,3}[A-Za-z] {1,3}[A-Za-z] "


def screen(text: str) -> list[Flag]:
    """The flags of a text, in the order of `FLAGS`. Takes linear time: 4 to 40 ms for a million characters."""
    found: set[Flag] = set()
    for finding in find(text, known=found):
        found.add(finding.flag)
    return [flag for flag in FLAGS if flag in found]


def find(text: str, known: Container[Flag] = ()) -> Iterator[Finding]:
    """Yield all suspicious parts of a text, in no order; a part where two windows meet may come twice.

    Flags in `known`, which may grow in the meantime, are not looked for.
    """
    rules = _rules()
    for start in range(0, max(1, len(text)), WINDOW):
        piece = text[start : start + WINDOW + OVERLAP] if len(text) > WINDOW else text
        hints = rules.read(piece)
        disguised = False
        for finding in _find_characters(piece, hints, known):
            disguised = True
            yield _move(finding, start)
        if disguised:
            yield from _find_disguised(replace_lookalikes(piece), start, len(piece))
        yield from (_move(finding, start) for finding in rules.find(hints, known))
        if _STYLED in hints.probes:
            # Positions change with the normal form: the whole piece is flagged.
            yield from _find_disguised(unicodedata.normalize("NFKC", piece), start, len(piece))
        for match in _SPACED.finditer(piece) if _SPACED_START in hints.probes else ():
            letters = " ".join("".join(word.split()) for word in re.split(r"\s{2,}", match.group()))
            for finding in _find_disguised(letters, start + match.start(), match.end() - match.start()):
                if finding.flag == "instructions":
                    yield finding


def _find_characters(text: str, hints: Hints, known: Container[Flag]) -> Iterator[Finding]:
    for probe, find_odd in FINDERS:
        if probe in hints.probes and "zero_width" not in known:
            for finding in find_odd(text):
                yield finding
                if "zero_width" in known:
                    return


def _find_disguised(text: str, start: int, length: int) -> Iterator[Finding]:
    """The flags of a text in another form, each for all of the original."""
    rules = _rules()
    for flag in {finding.flag for finding in rules.find(rules.read(text))}:
        yield Finding(flag, start, start + length)


def flags_of_spans(findings: Iterable[Finding], spans: Sequence[tuple[int, int]]) -> list[set[Flag]]:
    """The flags of each of the parts of a text, which are in the order of their starts and of their ends."""
    flags: list[set[Flag]] = [set() for _ in spans]
    ends = [end for _, end in spans]
    for finding in findings:
        place = bisect_left(ends, finding.start + 1)
        while place < len(spans) and spans[place][0] < max(finding.end, finding.start + 1):
            flags[place].add(finding.flag)
            place += 1
    return flags


@cache
def _rules() -> RuleSet:
    probes = (*(probe for probe, _ in FINDERS), _STYLED, _SPACED_START)
    return RuleSet([*read_rules()], probes)


def _move(finding: Finding, by: int) -> Finding:
    return finding if not by else Finding(finding.flag, finding.start + by, finding.end + by)


def screen_chunks(document: ParsedDocument, chunks: Sequence[Chunk]) -> list[list[Flag]]:
    """The flags of each chunk, from the whole text: a phrase that is cut in two flags both chunks.

    A chunk also has the flags of its headings, and of the title of the document. Hidden marks without a letter or
    digit, such as those that open a part of a page, are not suspicious.
    """
    hidden = (
        Finding("invisible_text", span.start, span.end)
        for span in document.hidden
        if any(map(str.isalnum, document.text[span.start : span.end]))
    )
    found = flags_of_spans(chain(find(document.text), hidden), [(chunk.char_start, chunk.char_end) for chunk in chunks])
    of_title = lru_cache(maxsize=10_000)(screen)
    for chunk, flags in zip(chunks, found, strict=True):
        for title in (document.title, *chunk.headings):
            if title:
                flags.update(of_title(title))
    return [[flag for flag in FLAGS if flag in flags] for flags in found]
