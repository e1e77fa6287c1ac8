"""What the fields of hits show about hits that may contradict each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from uuid import UUID

from app.knowledge.search.results import Hit

COMPARED = 20
"""Best hits that are compared with each other: 190 pairs."""

READ = 1_000
"""Characters of each content that are compared."""

ALIKE = 0.6
"""Share of common words from which two texts count as alike: those that differ in a number or a few words."""

FEWEST = 4
"""Words that a text must have: shorter ones are alike by chance."""

MOST = 5
"""Notes of an answer."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Note:
    """A statement about two hits: `superseded` by another one, or `differing` in texts that are alike."""

    kind: str
    hits: Sequence[UUID]
    text: str


def compare_hits(hits: Sequence[Hit]) -> list[Note]:
    """Note superseded hits, and those whose texts are alike but not equal, the best first, at most `MOST`."""
    numbers = {hit.id: number for number, hit in enumerate(hits, 1)}
    notes = [_note_successor(hit, numbers) for hit in hits if hit.superseded_by_id is not None]
    compared = [(hit, frozenset(_WORD.findall(hit.content[:READ].casefold()))) for hit in hits[:COMPARED]]
    for (one, its), (other, theirs) in combinations(compared, 2):
        if len(notes) >= MOST:
            break
        if other.id == one.superseded_by_id or one.id == other.superseded_by_id:
            continue
        if min(len(its), len(theirs)) >= FEWEST and its != theirs and _share(its, theirs) >= ALIKE:
            notes.append(_note_difference(one, other, numbers))
    return notes[:MOST]


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def _note_successor(hit: Hit, numbers: dict[UUID, int]) -> Note:
    successor = hit.superseded_by_id
    assert successor is not None
    place = f"hit {numbers[successor]}" if successor in numbers else f"entry {successor}"
    return Note("superseded", [hit.id, successor], f"Hit {numbers[hit.id]} is superseded by {place}.")


def _note_difference(one: Hit, other: Hit, numbers: dict[UUID, int]) -> Note:
    a, b = numbers[one.id], numbers[other.id]
    said = []
    if one.is_verified != other.is_verified:
        verified, other_one = (a, b) if one.is_verified else (b, a)
        said.append(f"hit {verified} is verified, hit {other_one} is not")
    if one.confidence != other.confidence:
        said.append(f"hit {a} has the confidence {one.confidence:g}, hit {b} {other.confidence:g}")
    if one.updated_at != other.updated_at:
        newer, older = (a, b) if one.updated_at > other.updated_at else (b, a)
        said.append(f"hit {newer} was changed later than hit {older}")
    facts = f": {', '.join(said)}" if said else ""
    text = (
        f"Hits {a} and {b} have texts that are alike and differ{facts}. Compare them before you rely on one."
    )
    return Note("differing", [one.id, other.id], text)
