"""The collections that the quality benchmark brings or composes."""

import re
import unicodedata
from dataclasses import replace
from statistics import fmean

import pytest

from app.composition.services import Services
from app.evaluation.collection import Collection, Document, Query, read_path
from app.evaluation.evaluation import evaluate
from app.evaluation.metrics import Variant, compare_paired
from benchmarks.collections.mixed import mix_languages
from benchmarks.collections.named import HELP_DESK, JUDGEMENTS, MULTILINGUAL, NAMES
from benchmarks.report.quality import LANGUAGE_NAMES, TITLES
from tests.evaluation.samples import hide_progress


@pytest.fixture(scope="module")
def languages() -> Collection:
    return read_path(MULTILINGUAL)


def test_every_language_has_twenty_passages_and_a_question_for_each(languages: Collection) -> None:
    assert sorted(part.name for part in languages.parts) == sorted(LANGUAGE_NAMES)
    for part in languages.parts:
        assert [d.id for d in part.documents] == [f"{part.name}-{n:02}" for n in range(1, 21)]
        asked = {d for q in part.queries if "-q" in q.id for d in q.judgements}
        assert asked == {d.id for d in part.documents}
        assert all(set(q.judgements) <= asked for q in part.queries)
        assert len({q.text for q in part.queries}) == len(part.queries)
        assert {q.group for q in part.queries} == {part.name}
    assert set(TITLES) == {*JUDGEMENTS, *NAMES}


def test_answers_of_the_help_desk_share_few_words_with_their_questions() -> None:
    desk = read_path(HELP_DESK)
    assert (len(desk.documents), len(desk.queries)) == (129, 129)
    assert [[*q.judgements] for q in desk.queries] == [[d.id] for d in desk.documents]
    assert not any(d.title for d in desk.documents)
    answers = {d.id: _words(d.text) for d in desk.documents}
    shared = [len(asked & answers[next(iter(q.judgements))]) for q in desk.queries if (asked := _words(q.text))]
    assert fmean(shared) < 1
    assert sum(n == 0 for n in shared) > len(shared) / 2


@pytest.mark.slow
async def test_fusion_loses_no_more_than_chance_where_answers_have_other_words(local_services: Services) -> None:
    """With 0.6 * cosine + 0.4 * sqrt(BM25 / best * BM25 / full match), it lost 0.11 to the semantic leg."""
    variants = [Variant("semantic"), Variant("hybrid", "score")]
    runs = (await evaluate(local_services, read_path(HELP_DESK), hide_progress, variants=variants)).runs
    lost = compare_paired(*(run.scores.values["ndcg@10"] for run in reversed(runs)))
    assert lost.difference > -0.05
    assert lost.high > 0


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def test_typed_questions_have_no_accents(languages: Collection) -> None:
    typed = [query.text for query in languages.queries if "typed" in query.id]
    assert len(typed) > 15
    assert not [c for text in typed for c in unicodedata.normalize("NFD", text) if c in "\u0301\u0308\u0323"]


async def test_questions_find_their_passages_by_words(services: Services, languages: Collection) -> None:
    """Two questions of each language, and those typed without accents, with all passages in one tenant."""
    asked = [q for q in languages.queries if q.id.endswith(("q07", "q13")) or "typed" in q.id]
    whole = replace(languages, queries=asked, parts=())
    (run,) = (await evaluate(services, whole, hide_progress, variants=[Variant("keyword")])).runs
    missed = [q.id for q, found in zip(asked, run.scores.values["recall@10"], strict=True) if not found]
    assert missed == []


def test_both_translations_of_a_paragraph_are_relevant() -> None:
    german = Collection(
        "de",
        "qrels.tsv",
        [Document("x1", None, "Das Pferd schläft.")],
        [Query("7", "Wer schläft?", {"x1": 1}), Query("8", "Nur auf Deutsch?", {"x1": 1})],
        skipped=0,
        judged=2,
    )
    english = Collection(
        "en",
        "qrels.tsv",
        [Document("p1", None, "The horse sleeps."), Document("p2", None, "The cow is awake.")],
        [Query("7", "Who sleeps?", {"p1": 1}), Query("9", "Who is awake?", {"p2": 1})],
        skipped=0,
        judged=2,
    )
    mixed = mix_languages(german, english)
    assert [d.id for d in mixed.documents] == ["x1", "p1"]
    assert mixed.queries == [
        Query("7/de", "Wer schläft?", {"x1": 1, "p1": 1}, group="German question"),
        Query("7/en", "Who sleeps?", {"x1": 1, "p1": 1}, group="English question"),
    ]
