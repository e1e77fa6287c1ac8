"""Judged collections are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.evaluation.collection import UnreadableCollection, read_collection, read_path


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
    assert [(d.id, d.title, d.text) for d in collection.documents] == [
        ("d1", "One", "first"),
        ("d2", None, "second"),
    ]
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
    documents: list[dict[str, object]] = [
        {"_id": 7, "text": "seven"},
        {"_id": "8", "title": None, "text": "eight"},
    ]
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
