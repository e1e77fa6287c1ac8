"""Which flags the samples get, and precision and recall of each flag."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.contract.vocabulary import FLAGS, Flag
from app.documents.chunking import split
from app.documents.screening.screen import screen, screen_chunks
from app.embeddings.provider import estimate_tokens
from benchmarks.screening.characters import make_characters
from benchmarks.screening.files import make_files
from benchmarks.screening.instructions import make_instructions
from benchmarks.screening.samples import Sample
from benchmarks.screening.secrets import make_secrets

CHUNK = 400
"""Tokens of a chunk of the files."""


@dataclass(frozen=True, slots=True)
class Score:
    """How often a flag is right.

    Attributes:
        known: samples of the forms that rules were written for.
        known_found: those of them with the flag.
        unknown: other samples that should have the flag.
        unknown_found: those of them with the flag.
        clean: samples that should not have it, those of other flags too.
        wrong: those of them with the flag.
    """

    known: int
    known_found: int
    unknown: int
    unknown_found: int
    clean: int
    wrong: int

    @property
    def recall(self) -> float:
        """Of known forms."""
        return self.known_found / self.known

    @property
    def recall_of_others(self) -> float:
        """Of the samples that no rule was written for."""
        return self.unknown_found / self.unknown

    @property
    def precision(self) -> float:
        """Of all samples with the flag."""
        found = self.known_found + self.unknown_found
        return found / (found + self.wrong)


def make_samples() -> list[Sample]:
    """All samples."""
    return [*make_secrets(), *make_instructions(), *make_characters(), *make_files()]


def find_flags(sample: Sample) -> set[Flag]:
    """The flags of a text, or of all chunks of a file."""
    if isinstance(sample.content, str) or sample.parse is None:
        return {*screen(str(sample.content))}
    document = sample.parse(sample.content)
    chunks = split(document, estimate_tokens, CHUNK)
    return {flag for flags in screen_chunks(document, chunks) for flag in flags}


def score(judged: Sequence[tuple[Sample, set[Flag]]]) -> dict[Flag, Score]:
    """The score of each flag."""
    scores: dict[Flag, Score] = {}
    for flag in FLAGS:
        wanted = [(sample.known, flag in found) for sample, found in judged if sample.flag == flag]
        clean = [flag in found for sample, found in judged if sample.flag != flag]
        scores[flag] = Score(
            sum(known for known, _ in wanted),
            sum(known and found for known, found in wanted),
            sum(not known for known, _ in wanted),
            sum(not known and found for known, found in wanted),
            len(clean),
            sum(clean),
        )
    return scores


def count_kinds(judged: Iterable[tuple[Sample, set[Flag]]]) -> Mapping[str, tuple[int, int, Flag | None, bool]]:
    """For each kind: its samples, those with flags as they should be, its flag, and whether it is a known form."""
    counts: dict[str, tuple[int, int, Flag | None, bool]] = {}
    total: defaultdict[str, int] = defaultdict(int)
    right: defaultdict[str, int] = defaultdict(int)
    for sample, found in judged:
        total[sample.kind] += 1
        right[sample.kind] += sample.flag in found if sample.flag else not found
        counts[sample.kind] = (total[sample.kind], right[sample.kind], sample.flag, sample.known)
    return counts
