"""Collections of folders and of LoCoMo."""

import json
from pathlib import Path

import pytest

from app.composition.services import Services
from app.evaluation.collection import UnreadableCollection, read_collection, read_locomo, read_path
from app.evaluation.evaluation import evaluate
from app.evaluation.metrics import Variant
from tests.evaluation.conversations import make_conversations
from tests.evaluation.samples import hide_progress


def write_collection(
    folder: Path,
    documents: list[dict[str, object]],
    queries: list[dict[str, object]],
    qrels: str,
    qrels_name: str = "qrels.tsv",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)) + "\n")
    (folder / qrels_name).parent.mkdir(exist_ok=True)
    (folder / qrels_name).write_text(qrels)
    return folder


DOCUMENTS: list[dict[str, object]] = [
    {"_id": "d1", "title": "One", "text": "first"},
    {"_id": "d2", "title": "", "text": "second"},
    {"_id": "d3", "title": "Empty", "text": "  "},
]
QUERIES: list[dict[str, object]] = [
    {"_id": "q1", "text": "one?"},
    {"_id": "q2", "text": "two?"},
    {"_id": "q3", "text": "without judgements"},
]
HEADER = "query-id\tcorpus-id\tscore\n"


def test_a_query_counts_only_with_a_positive_judgement(tmp_path: Path) -> None:
    qrels = HEADER + "q1\td1\t2\nq1\td2\t0\nq2\td2\t0\n"
    collection = read_collection(write_collection(tmp_path / "small", DOCUMENTS, QUERIES, qrels))
    assert collection.name == "small"
    assert [q.id for q in collection.queries] == ["q1"]
    assert collection.queries[0].judgements == {"d1": 2.0, "d2": 0.0}
    assert collection.judged == 1


def test_empty_texts_are_skipped_and_counted(tmp_path: Path) -> None:
    collection = read_collection(write_collection(tmp_path, DOCUMENTS, QUERIES, HEADER + "q1\td1\t1\n"))
    assert [(d.id, d.title, d.text) for d in collection.documents] == [("d1", "One", "first"), ("d2", None, "second")]
    assert collection.skipped == 1
    assert [d.whole for d in collection.documents] == ["One\nfirst", "second"]


def test_judgements_without_header_and_in_four_columns_are_read(tmp_path: Path) -> None:
    write_collection(tmp_path, DOCUMENTS, QUERIES, "q1\td1\t1\n")
    (tmp_path / "trec.txt").write_text("q1 0 d2 1\nq2 0 d1 1\n\n")
    assert read_collection(tmp_path).queries[0].judgements == {"d1": 1.0}
    assert len(read_collection(tmp_path, Path("trec.txt")).queries) == 2
    assert read_collection(tmp_path, tmp_path / "trec.txt").qrels == "trec.txt"


def test_judgements_are_found_in_the_folder_that_beir_uses(tmp_path: Path) -> None:
    write_collection(tmp_path, DOCUMENTS, QUERIES, HEADER + "q2\td2\t1\n", "qrels/test.tsv")
    assert [q.id for q in read_collection(tmp_path).queries] == ["q2"]


def test_missing_fields_and_numeric_ids_are_read(tmp_path: Path) -> None:
    documents: list[dict[str, object]] = [{"_id": 7, "text": "seven"}, {"_id": "8", "title": None, "text": "eight"}]
    collection = read_collection(write_collection(tmp_path, documents, [{"_id": 1, "text": "?"}], HEADER + "1\t7\t1\n"))
    assert [d.id for d in collection.documents] == ["7", "8"]


def test_a_sample_is_reproducible_and_in_order(tmp_path: Path) -> None:
    queries: list[dict[str, object]] = [{"_id": f"q{n:02}", "text": "?"} for n in range(50)]
    qrels = HEADER + "".join(f"q{n:02}\td1\t1\n" for n in range(50))
    collection = read_collection(write_collection(tmp_path, DOCUMENTS, queries, qrels))
    first, again = collection.sample(10), collection.sample(10)
    ids = [q.id for q in first.queries]
    assert ids == [q.id for q in again.queries] == sorted(ids)
    assert len(ids) == 10
    assert first.judged == 50
    assert collection.sample(None) is collection
    assert collection.sample(50) is collection


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", "{not json}\n", "corpus.jsonl: line 1 is not JSON"),
        ("corpus.jsonl", "[1]\n", "line 1 is not a JSON object"),
        ("corpus.jsonl", '{"title": "x", "text": "y"}\n', "line 1 has no text in '_id'"),
        ("corpus.jsonl", '{"_id": "a", "text": ["y"]}\n', "line 1 has no text in 'text'"),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n', "the _id a occurs twice"),
        ("corpus.jsonl", '{"_id": "a", "text": ""}\n', "has no document with text"),
        ("queries.jsonl", '{"_id": "q9", "text": "?"}\n', "has no query with a positive judgement"),
        ("qrels.tsv", HEADER + "q1\td1\tgood\n", "line 2 must be query, document and grade"),
        ("qrels.tsv", HEADER + "1\n", "line 2 must be query, document and grade"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, file: str, content: str, message: str) -> None:
    write_collection(tmp_path, DOCUMENTS, QUERIES, HEADER + "q1\td1\t1\n")
    (tmp_path / file).write_text(content)
    with pytest.raises(UnreadableCollection, match=message):
        read_collection(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCollection, match="no such folder"):
        read_collection(tmp_path / "absent")
    write_collection(tmp_path, DOCUMENTS, QUERIES, HEADER + "q1\td1\t1\n")
    with pytest.raises(UnreadableCollection, match=r"there is no other\.tsv"):
        read_collection(tmp_path, Path("other.tsv"))
    (tmp_path / "qrels.tsv").unlink()
    with pytest.raises(UnreadableCollection, match=r"there is no qrels\.tsv or qrels/test\.tsv"):
        read_collection(tmp_path)
    (tmp_path / "qrels.tsv").write_text(HEADER + "q1\td1\t1\n")
    (tmp_path / "queries.jsonl").unlink()
    with pytest.raises(UnreadableCollection, match=r"queries\.jsonl: No such file"):
        read_collection(tmp_path)


def test_a_folder_of_collections_is_one_in_parts(tmp_path: Path) -> None:
    for name in ("two", "one"):
        write_collection(tmp_path / name, DOCUMENTS, QUERIES, "q1\td1\t1\n")
    whole = read_path(tmp_path)
    assert (whole.name, [part.name for part in whole.parts]) == (tmp_path.name, ["one", "two"])
    assert [(q.id, q.group) for q in whole.queries] == [("q1", "one"), ("q1", "two")]
    assert len(whole.documents) == 2 * len(whole.parts[0].documents)
    assert read_path(tmp_path / "one") == read_collection(tmp_path / "one")


def test_a_folder_without_collections_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCollection, match=r"there is no qrels\.tsv"):
        read_path(tmp_path)
    with pytest.raises(UnreadableCollection, match="there is no such folder"):
        read_path(tmp_path / "absent")


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
