"""The generated samples: known forms are found, and ordinary text is not flagged unless it quotes an attack."""

from __future__ import annotations

from app.contract.vocabulary import FLAGS
from benchmarks.screening.scoring import find_flags, make_samples, score


def test_samples_are_the_same_in_each_run() -> None:
    assert [sample.content for sample in make_samples()] == [sample.content for sample in make_samples()]


def test_known_forms_are_found_and_ordinary_text_is_not_flagged() -> None:
    samples = [
        sample for place, sample in enumerate(make_samples()) if place % 3 == 0 or not isinstance(sample.content, str)
    ]
    judged = [(sample, find_flags(sample)) for sample in samples]
    scores = score(judged)
    assert {flag: scores[flag].recall for flag in FLAGS} == dict.fromkeys(FLAGS, 1.0)
    wrong = {sample.kind for sample, found in judged if found - {sample.flag}}
    assert wrong <= {"instruction-like: quoted attacks"}
