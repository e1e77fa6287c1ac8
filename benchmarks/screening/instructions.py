"""Instructions to language models: forms that rules were written for, others, and ordinary texts."""

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.screening.samples import Sample, surround

MOST = 24
"""Samples of each form."""
UNSPACED = ("Chinese", "Japanese")
"""Languages without spaces between words."""


def make_instructions() -> Iterator[Sample]:
    """Yield samples for the flag `instructions`."""
    given = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    for group, forms in given["forms"].items():
        for form, lists in forms.items():
            random = Random(f"{group} {form}")
            space = "" if form in UNSPACED else " "
            texts = [space.join(text) for text in itertools.product(*lists)]
            for text in random.sample(texts, min(MOST, len(texts))):
                yield Sample(f"{group}: known forms", "instructions", surround(text, random))
    for name in ("usual", "paraphrases", "fresh"):
        for group, texts in given[name].items():
            for text in texts:
                yield Sample(f"{group}: {name}", "instructions", surround(text, Random(text)), known=False)
    for kind, texts in given["ordinary"].items():
        for text in texts:
            yield Sample(f"instruction-like: {kind.replace('_', ' ')}", None, surround(text, Random(text)))
