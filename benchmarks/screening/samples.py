"""Texts and files with suspicious content, and ordinary ones that resemble them; the same in each run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from app.contract.vocabulary import Flag
from app.documents.parsed import ParsedDocument

CARRIERS = (
    "The harbour office opens at seven in the morning and closes when the last boat has left.",
    "Guests ring the bell at the gate and wait for the watch to open it for them.",
    "Each invoice names the ship, the berth and the nights. It is due within thirty days.",
    "Das Hafenamt öffnet um sieben Uhr. Gäste melden sich am Tor bei der Wache.",
    "To restore the database, stop the service, copy the files and start it again.",
    "The release adds a search by title, and fixes the order of results with equal scores.",
    "Bei Sturm werden die Boote am inneren Steg festgemacht, und der Kran steht still.",
    "Staff book their leave in the calendar; the head of the office confirms it within a week.",
)
"""Ordinary text in which a sample stands."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A text or a file.

    Attributes:
        kind: what it is, as in the tables.
        flag: the flag that it should have, None for an ordinary one.
        content: a text, or the bytes of a file.
        parse: reads the file; None for a text.
        known: whether rules were written for this form. The others show what is missed.
    """

    kind: str
    flag: Flag | None
    content: str | bytes
    parse: Callable[[bytes], ParsedDocument] | None = None
    known: bool = True


def surround(text: str, random: Random) -> str:
    """The text as a paragraph between two ordinary ones."""
    before, after = random.sample(CARRIERS, 2)
    return f"{before}\n\n{text}\n\n{after}"


def repeat(
    kind: str, flag: Flag | None, count: int, make: Callable[[Random], str], *, known: bool = True
) -> Iterator[Sample]:
    """Yield samples of one kind, each from numbers of its own."""
    for number in range(count):
        random = Random(f"{kind} {number}")
        yield Sample(kind, flag, surround(make(random), random), known=known)
