"""Records of an export, line by line."""

import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pgvector import HalfVector

from app.knowledge.transfer import records
from app.knowledge.transfer.records import (
    REFUSALS,
    count_lines,
    describe_refusal,
    parse_record,
    read_lines,
    read_records,
)
from app.knowledge.transfer.tenant import read_asset, read_entry, read_header, read_part, read_record

ENTRY = {"content": 'Boats lie here, "at" the pier;\nÄ 🎉', "tags": ["a", "b"], "metadata": {"n": [1, 2.5]}}


def read(folder: Path, name: str, text: str) -> list[tuple[int, Any]]:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return [(r.line, r.value if r.error is None else f"error: {r.error}") for r in read_records(file)]


@pytest.mark.parametrize("piece", [1, 3, 1 << 16])
@pytest.mark.parametrize("name", ["a.json", "a.txt"])
def test_an_array_is_read_in_pieces(name: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PIECE", piece)
    text = f'\ufeff\n[\n{json.dumps(ENTRY)},\n\n {json.dumps(ENTRY, indent=1)}\n, 123, "x"]\n'
    found = read(tmp_path, name, text)
    assert found[0] == (3, ENTRY)
    assert found[1] == (5, ENTRY)
    assert [value for _, value in found[2:]] == [123, "x"]
    assert read(tmp_path, name, " [ ] ") == []


@pytest.mark.parametrize("text", ['[{"a": 1} {"a": 2}]', '[{"a": 1},', '[{"a": 1}', '[{"a": 1}] x', '[{"a": 1},{]'])
def test_a_broken_array_ends_with_an_error(text: str, tmp_path: Path) -> None:
    found = read(tmp_path, "a.json", text)
    assert found[0] == (1, {"a": 1})
    assert len(found) == 2
    assert str(found[1][1]).startswith("error: ")


def test_json_lines_go_on_after_a_broken_line(tmp_path: Path) -> None:
    text = f"{json.dumps(ENTRY)}\n\n{{broken\n[1]\n"
    assert read(tmp_path, "a.jsonl", text) == [(1, ENTRY), (3, "error: is not JSON"), (4, [1])]


def test_a_line_that_is_too_long_is_refused_without_reading_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without line ends, e.g. one large object, would otherwise be in memory as a whole."""
    monkeypatch.setattr(records, "MAX_RECORD", 100)
    fits, long = '{"a": "b"}', json.dumps({"a": "x" * 5_000_000})
    expected = [(1, {"a": "b"}), (2, "error: is longer than 100 bytes"), (3, {"a": "b"})]
    assert read(tmp_path, "a.jsonl", f"{fits}\n{long}\n{fits}") == expected
    assert read(tmp_path, "a.jsonl", f"{fits}\n{long}") == expected[:2]
    tracemalloc.start()
    try:
        assert len(list(read_records(tmp_path / "a.jsonl"))) == 2
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_line_of_the_longest_length_is_read_with_and_without_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    line = '{"a": "b"}'
    monkeypatch.setattr(records, "MAX_RECORD", len(line))
    assert read(tmp_path, "a.jsonl", line + end) == [(1, {"a": "b"})]
    assert read(tmp_path, "a.jsonl", f"{line} {end}") == [(1, f"error: is longer than {len(line)} bytes")]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_an_integer_of_any_length_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    number = 123456789012345678901234567890
    text = json.dumps({"a": number})
    assert read(tmp_path, name, text if name == "a.jsonl" else f"[{text}]") == [(1, {"a": number})]


def test_a_line_with_a_long_integer_may_be_wrong_in_other_ways(tmp_path: Path) -> None:
    deep = "[" * 1_010 + "1" * 19 + "]" * 1_010
    text = "\n".join((deep, "1" * 5_000, "1" * 19 + "x"))
    assert [value for _, value in read(tmp_path, "a.jsonl", text)] == ["error: is not JSON"] * 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "entries:\n- content: one\n- content: two\n"),
        ("a.json", '{"entries": [{"content": "one"}, {"content": "two"}]}'),
    ],
)
def test_entries_may_be_in_a_field_of_that_name(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert [record.value for record in read_records(file)] == [{"content": "one"}, {"content": "two"}]
    file.write_text(text.replace("}]}", '}], "more": 1}') if name.endswith("json") else f"{text}more: 1\n")
    *_, last = read_records(file)
    assert last.error == "is not YAML: cannot be read"
    file.write_text('{"entries": 7}')
    assert [record.error for record in read_records(file)] == ["is not YAML: entries must be a list"]


def test_yaml_is_a_list_or_documents(tmp_path: Path) -> None:
    text = "- content: |\n    Boats\n    lie here.\n  tags: [a, b]\n- content: x\n  expires_at: 2030-01-01T00:00:00Z\n"
    assert read(tmp_path, "a.yaml", text) == [
        (1, {"content": "Boats\nlie here.\n", "tags": ["a", "b"]}),
        (5, {"content": "x", "expires_at": "2030-01-01T00:00:00Z"}),
    ]
    assert read(tmp_path, "a.yml", "content: a\n---\ncontent: b\n") == [(1, {"content": "a"}), (3, {"content": "b"})]
    assert read(tmp_path, "a.yml", "content: a\n---\n---\ncontent: b\n---\n") == [
        (1, {"content": "a"}),
        (4, {"content": "b"}),
    ]
    assert read(tmp_path, "a.yml", "- content: a\n-\n") == [(1, {"content": "a"}), (2, None)]
    bomb = "- &a [x, x]\n- [*a, *a]\n"
    assert "error: is not YAML: aliases are not supported" in [value for _, value in read(tmp_path, "a.yml", bomb)]
    tagged = "- content: a\n- !!python/object/apply:os.system [ls]\n"
    assert str(read(tmp_path, "a.yml", tagged)[-1][1]).startswith("error: is not YAML")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("item", "error"),
    [
        ("x" * 1_000_000, "an item is longer than 100,000 characters"),
        ("[" + "1," * 40_000 + "]", "an item has more than 1,000 values"),
    ],
)
def test_an_item_of_yaml_beyond_its_bounds_is_refused_without_reading_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str, error: str
) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 100_000)
    monkeypatch.setattr(records, "MOST_VALUES", 1_000)
    text = f"- content: a\n- content: {item}\n- content: c\n"
    expected = [(1, {"content": "a"}), (2, f"error: is not YAML: {error}")]
    assert read(tmp_path, "a.yaml", text) == expected
    assert read(tmp_path, "a.yaml", text.replace("- ", "---\n"))[1][1] == expected[1][1]
    tracemalloc.start()
    try:
        assert len(list(read_records(tmp_path / "a.yaml"))) == 2
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_many_items_of_yaml_may_be_longer_together_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 10_000)
    monkeypatch.setattr(records, "MOST_VALUES", 1_000)
    assert len(read(tmp_path, "a.yaml", "- content: [1, 2]\n" * 2_000)) == 2_000


def test_csv_has_names_in_its_first_row(tmp_path: Path) -> None:
    text = (
        "content,title,tags,metadata,confidence,is_verified\n"
        '"Boats, lie\nhere",,"a, b","{""n"": 1}",0.5,true\n'
        "x\n"
        ",only a title\n"
        "a,b,c,{},1,true,more\n"
    )
    assert read(tmp_path, "a.csv", text) == [
        (
            2,
            {
                "content": "Boats, lie\nhere",
                "tags": ["a", "b"],
                "metadata": {"n": 1},
                "confidence": 0.5,
                "is_verified": True,
            },
        ),
        (4, {"content": "x"}),
        (5, {"content": "", "title": "only a title"}),
        (6, "error: has 7 cells under 6 names"),
    ]
    lists = 'content,readers,writers\nx,"group:hr, user:jane",group:hr\ny,,\n'
    assert read(tmp_path, "a.csv", lists) == [
        (2, {"content": "x", "readers": ["group:hr", "user:jane"], "writers": ["group:hr"]}),
        (3, {"content": "y"}),
    ]
    assert read(tmp_path, "a.tsv", "content\ttitle\na, b\tT\n") == [(2, {"content": "a, b", "title": "T"})]
    assert str(read(tmp_path, "a.csv", 'content,title\nx,"y\n')[-1][1]).startswith("error: is not CSV")
    assert read(tmp_path, "a.csv", "content,title, content\nx,y,z\n") == [(1, "error: has a column twice: content")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.yaml"])
def test_a_large_file_is_read_in_bounded_memory(name: str, tmp_path: Path) -> None:
    count, most = (100, 300_000) if name == "a.yaml" else (3_000, 2_000_000)  # YAML is slow to read
    entry = {"content": "Boats lie here. " * 250}
    texts = {
        "a.json": "[" + ",\n".join([json.dumps(entry)] * count) + "]",
        "a.jsonl": "\n".join([json.dumps(entry)] * count),
        "a.csv": "content\n" + "\n".join([entry["content"]] * count),
        "a.yaml": "\n".join([f"- content: {entry['content']}"] * count),
    }
    (tmp_path / name).write_text(texts.pop(name), encoding="utf-8")
    del texts
    tracemalloc.start()
    try:
        assert sum(record.error is None for record in read_records(tmp_path / name)) == count
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"content": "x", "expires_at": "soon"}, "expires_at: must be a date"),
        ({"content": "x", "source_ids": [1]}, "source_ids: must hold ids"),
    ],
)
def test_line_out_of_range_is_refused_with_a_reason(line: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_record(1, line)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\n", 2)])
def test_a_last_line_without_an_end_is_counted(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "a").write_text(text)
    assert count_lines(tmp_path / "a") == count


def test_a_line_of_an_export_that_is_too_long_is_refused_without_reading_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_EXPORTED", 100)
    monkeypatch.setattr(records, "MAX_ASSET", 200)
    file = tmp_path / "a.jsonl"
    entry, asset = b'{"kind":"entry","x":"%s"}', b'{"kind":"asset","x":"%s"}'
    given = [entry % (b"x" * 20), entry % (b"x" * 5_000_000), asset % (b"x" * 150), asset % (b"x" * 5_000_000)]
    file.write_bytes(b"\n".join(given))
    found = [(line.number, line.text, line.error) for line in read_lines(file, exported=True)]
    assert found == [
        (1, given[0] + b"\n", None),
        (2, b"", "is longer than 100 bytes"),
        (3, given[2] + b"\n", None),
        (4, b"", "is longer than 200 bytes"),
    ]
    tracemalloc.start()
    try:
        assert len(list(read_lines(file, exported=True))) == 4
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


ID, OTHER = "0190b8f6-0000-7000-8000-000000000001", "0190b8f6-0000-7000-8000-000000000002"
VECTOR = {
    "passage": 0,
    "char_start": 0,
    "char_end": 4,
    "vector": base64.b64encode(HalfVector([1.0, 0.0]).to_binary()).decode(),
}
EXPORTED_ENTRY = {"kind": "entry", "id": ID, "title": None, "content": "text", "accesses": 2, "vectors": [VECTOR]}


def test_entry_has_its_vectors_only_if_they_are_wanted() -> None:
    entry = read_entry(EXPORTED_ENTRY, with_vectors=True)
    assert (entry.id, entry.content, entry.accesses, entry.refers) == (UUID(ID), "text", 2, False)
    assert entry.vectors[0]["vector"].to_list() == [1.0, 0.0]
    assert read_entry({**EXPORTED_ENTRY, "vectors": "none"}, with_vectors=False).vectors == ()
    assert "vectors" not in entry.columns


def test_entry_is_renamed_with_its_references() -> None:
    entry = read_entry({**EXPORTED_ENTRY, "parent_id": OTHER, "source_ids": [OTHER, ID]}, with_vectors=False)
    assert entry.refers
    renamed = entry.renamed({OTHER: ID})
    assert renamed.links == {"id": ID, "parent_id": ID, "superseded_by_id": None, "source_ids": [ID, ID]}
    found = entry.found_as(UUID(OTHER))
    assert (found.id, found.columns["id"], found.columns["parent_id"]) == (UUID(OTHER), OTHER, OTHER)


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": "not an id"},
        {"id": 7},
        {"accesses": [1]},
        {"vectors": [{**VECTOR, "vector": "%"}]},
        {"vectors": [{**VECTOR, "passage": None}]},
        {"vectors": [{}]},
        {"vectors": 7},
    ],
)
def test_entry_that_cannot_be_read_is_refused_without_its_content(change: dict[str, Any]) -> None:
    with pytest.raises(REFUSALS) as refused:
        read_entry({**EXPORTED_ENTRY, **change}, with_vectors=True)
    assert describe_refusal(refused.value) == "has a field that cannot be read"


@pytest.mark.parametrize("name", ["title", "content"])
def test_entry_with_too_many_marks_in_a_row_is_refused(name: str) -> None:
    assert read_entry({**EXPORTED_ENTRY, name: "a" + "\u0301" * 30}, with_vectors=True).columns[name]
    with pytest.raises(REFUSALS) as refused:
        read_entry({**EXPORTED_ENTRY, name: "a" + "\u0301" * 31}, with_vectors=True)
    assert describe_refusal(refused.value) == f"{name}: must have at most 30 combining marks in a row"


def test_assets_parts_and_records_without_a_field_are_refused() -> None:
    for read in (
        lambda: read_asset({"byte_size": 3}),
        lambda: read_asset({"id": ID, "byte_size": "3"}),
        lambda: read_part({"start": 0}),
        lambda: read_record("feedback", {"search_id": ID}, {}),
    ):
        with pytest.raises(REFUSALS) as refused:
            read()
        assert describe_refusal(refused.value) == "has a field that cannot be read"


def test_the_first_line_may_begin_with_a_byte_order_mark() -> None:
    assert read_header(b'\xef\xbb\xbf{"kind": "tenant"}') == {"kind": "tenant"}
