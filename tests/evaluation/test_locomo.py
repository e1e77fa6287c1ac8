"""LoCoMo's file, from a small one in its form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.composition.services import Services
from app.evaluation.collection import UnreadableCollection, read_locomo, read_path
from app.evaluation.evaluation import evaluate
from app.evaluation.metrics import Variant
from tests.evaluation.conversations import make_conversations
from tests.evaluation.samples import hide_progress


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps(make_conversations()))
    return path


def test_turns_are_documents_in_the_order_of_the_sessions(file: Path) -> None:
    garden, music = read_locomo(file).parts
    assert [(d.id, d.text) for d in garden.documents] == [
        ("D1:1", "(1:56 pm on 8 May, 2023) Ines: I start at the observatory on Monday."),
        (
            "D1:2",
            "(1:56 pm on 8 May, 2023) Tomas: Look what I built over the winter!"
            " [shares a picture: a photo of a wooden canoe]",
        ),
        ("D2:1", "(9:05 am on 3 June, 2023) Tomas: My tomatoes have finally ripened."),
        ("D2:2", "(9:05 am on 3 June, 2023) Ines: Lovely! I adopted a greyhound called Pixel."),
    ]
    assert (garden.name, music.name) == ("conv-1", "conv-2")
    assert [d.id for d in music.documents] == ["D1:1"]


def test_evidence_is_relevant_however_it_is_written(file: Path) -> None:
    collection = read_locomo(file)
    assert [(q.id, q.group, dict(q.judgements)) for q in collection.queries] == [
        ("conv-1/1", "single-hop", {"D1:1": 1.0}),
        ("conv-1/2", "multi-hop", {"D1:2": 1.0, "D2:1": 1.0}),
        ("conv-1/3", "temporal", {"D2:2": 1.0}),
        ("conv-2/1", "single-hop", {"D1:1": 1.0}),
    ]


def test_questions_without_evidence_are_counted(file: Path) -> None:
    assert read_locomo(file).ignored == {"no evidence": 2, "evidence without a turn": 1, "adversarial": 1}


def test_a_sample_of_the_questions_keeps_their_conversations(file: Path) -> None:
    whole = read_locomo(file)
    sample = whole.sample(2)
    assert len(sample.queries) == 2
    assert sample.queries == [q for part in sample.parts for q in part.queries]
    assert (sample.judged, sample.ignored) == (4, whole.ignored)
    for part in sample.parts:
        assert all(q.id.startswith(part.name) for q in part.queries)
        assert part.documents == next(p for p in whole.parts if p.name == part.name).documents
    assert whole.sample(4) is whole


def test_a_turn_that_occurs_twice_keeps_both_texts(tmp_path: Path) -> None:
    samples = make_conversations()
    samples[1]["conversation"]["session_1"].append({"speaker": "Bo", "dia_id": "D1:1", "text": "Me too."})
    path = tmp_path / "again.json"
    path.write_text(json.dumps(samples))
    assert [d.id for d in read_locomo(path).parts[1].documents] == ["D1:1", "D1:1/2"]


def test_the_file_is_found_in_its_folder(file: Path) -> None:
    assert read_path(file) == read_path(file.parent) == read_locomo(file)
    with pytest.raises(UnreadableCollection, match="holds its own judgements"):
        read_path(file, Path("qrels.tsv"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("{}", "is not a list of conversations"),
        ("[]", "has no question with evidence"),
        ('[{"sample_id": "c", "qa": []}]', "conversation c is not a JSON object"),
        ('[{"sample_id": "c", "conversation": {}}]', "conversation c has no list 'qa'"),
        ('[{"conversation": {}, "qa": [1]}]', "conversation conv-1, question 1 is not a JSON object"),
    ],
)
def test_an_unreadable_file_is_named_with_its_problem(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(UnreadableCollection, match=problem) as caught:
        read_locomo(path)
    assert str(path) in str(caught.value)
    with pytest.raises(UnreadableCollection, match="No such file"):
        read_locomo(tmp_path / "absent.json")


async def test_evidence_is_searched_in_its_own_conversation(services: Services, file: Path) -> None:
    evaluation = await evaluate(services, read_path(file), hide_progress, variants=[Variant("keyword")])
    (run,) = evaluation.runs
    # "Ines", "work"; "Tomas", "build"; "greyhound"; "cello", "Thursdays". The tomatoes share "Tomas" only.
    assert list(run.scores.values["hit@10"]) == [1.0, 1.0, 1.0, 1.0]
    assert list(run.scores.values["recall@10"]) == [1.0, 1.0, 1.0, 1.0]
    assert [(group.name, group.queries) for group in evaluation.groups] == [
        ("multi-hop", 1),
        ("single-hop", 2),
        ("temporal", 1),
    ]
    assert await services.tenants.list_tenants() == []
