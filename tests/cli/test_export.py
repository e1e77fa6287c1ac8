"""knowledge export and import."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from app.cli.transfer import _whole_file
from tests.cli.conftest import CommandLine, exported, write_lines


@pytest.mark.slow
def test_export_is_imported_with_its_relations(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    drafts: list[dict[str, Any]] = [
        {
            "content": "The plan for the new quay.",
            "entry_type": "decision",
            "title": "Quay",
            "tags": ["quay", "plan"],
            "roles": ["pm", "dev"],
            "confidence": 0.5,
            "scope": "project",
            "metadata": {"n": [1, None]},
            "language": "english",
            "is_verified": True,
            "expires_at": "2090-01-01T00:00:00+01:00",
        },
        {"content": "Die Spundwand ist zwölf Meter tief.", "external_id": "wall"},
        {"content": "The quay was opened.", "external_id": "opened"},
    ]
    knowledge.succeed("import", str(write_lines(tmp_path / "drafts.jsonl", drafts)), "-t", tenant)
    ids = {entry["content"]: entry["id"] for entry in exported(knowledge, tenant)}
    plan, wall, opened = (ids[str(draft["content"])] for draft in drafts)
    related = [
        {**drafts[1], "parent_id": plan, "source_ids": [opened, plan]},
        {**drafts[0], "superseded_by_id": opened, "source_ids": [wall]},
    ]
    done = knowledge.succeed("import", str(write_lines(tmp_path / "more.jsonl", related)), "-t", tenant, "--json")
    assert done.json["dropped_references"] == 0
    original = exported(knowledge, tenant)

    file = tmp_path / "export.jsonl"
    knowledge.succeed("export", "-t", tenant, "-o", str(file))
    copy = f"{tenant[:50]}-copy"
    knowledge.succeed("tenant", "create", copy)
    imported = knowledge.succeed("import", str(file), "-t", copy, "--json").json
    assert (imported["created"], imported["failed"], imported["dropped_references"]) == (3, 0, 0)
    assert by_content(exported(knowledge, copy)) == by_content(original)
    assert {e["id"] for e in exported(knowledge, copy)} == set(ids.values())

    again = knowledge.succeed("import", str(file), "-t", copy, "--json").json
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 3)


@pytest.mark.slow
def test_export_restores_assets_settings_and_vectors(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("A note about the crane.")
    knowledge.succeed("ingest", "note.txt", "-t", tenant, "--tag", "crane")
    result = knowledge.succeed("export", "-t", tenant, "--vectors", "-o", "all.jsonl")
    assert result.err.endswith("1 entries and chunks, 1 assets written with vectors\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.jsonl", "note.txt"]
    copy = f"{tenant[:50]}-copy"
    knowledge.succeed("tenant", "create", copy)
    # Without waiting and without a worker: nothing has to be computed again.
    imported = knowledge.succeed("import", "all.jsonl", "-t", copy, "--no-wait", "--json").json
    assert (imported["created"], imported["assets"], imported["without_vector"]) == (1, 1, 0)
    first, second = (knowledge.succeed("export", "-t", slug, "--vectors").out.splitlines() for slug in (tenant, copy))
    assert first[1:] == second[1:]
    (hit,) = knowledge.succeed("search", "A note about the crane.", "-t", copy, "--mode", "semantic", "--json").json[
        "results"
    ]
    assert (hit["asset_name"], hit["tags"]) == ("note.txt", ["crane"])
    again = knowledge.succeed("ingest", "note.txt", "-t", copy, "--tag", "crane")
    assert again.out == "1 file: 0 indexed, 1 unchanged, 0 skipped, 0 failed\n"


def test_export_to_a_hyphen_is_written_to_stdout(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    assert knowledge.succeed("export", "-t", tenant, "-o", "-").out.splitlines()
    assert not list(tmp_path.iterdir())


def test_export_that_fails_leaves_no_partial_file(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("the former export")
    assert knowledge("export", "-t", "absent", "-o", "old.jsonl").status == 1
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("old.jsonl", "the former export")]


def test_export_is_readable_by_its_owner_only(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("the former export")
    (tmp_path / "other").write_text("another file")
    # The name that a former version wrote to.
    (tmp_path / "old.jsonl.part").symlink_to("other")
    knowledge.succeed("export", "-t", tenant, "-o", "old.jsonl")
    assert stat.S_IMODE((tmp_path / "old.jsonl").stat().st_mode) == 0o600
    assert (tmp_path / "other").read_text() == "another file"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old.jsonl", "old.jsonl.part", "other"]


def test_unfinished_export_has_a_random_name_and_is_private(tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        with _whole_file(tmp_path / "a.jsonl") as stream:
            (unfinished,) = (path for path in tmp_path.iterdir() if path.name != "a.jsonl")
            assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600
            names.add(unfinished.name)
    assert len(names) == 2


def by_content(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries without their ids; references are replaced by the content of their targets."""
    contents = {entry["id"]: entry["content"] for entry in entries}
    contents[None] = None
    return {
        entry["content"]: {
            **{name: value for name, value in entry.items() if name != "id"},
            "parent_id": contents[entry["parent_id"]],
            "superseded_by_id": contents[entry["superseded_by_id"]],
            "source_ids": [contents[source] for source in entry["source_ids"]],
        }
        for entry in entries
    }


BEIR: list[dict[str, Any]] = [
    {"_id": "1", "title": "Tides", "text": "The harbour falls dry at spring tide.", "metadata": {}},
    {"_id": "2", "title": "", "text": "Every mooring is inspected in March.", "metadata": {"year": 2026}},
    {"_id": "3", "title": "Nothing", "text": " "},
]


def test_import_of_a_beir_corpus_keeps_ids_and_skips_empty_texts(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    corpus = write_lines(tmp_path / "corpus.jsonl", BEIR)
    first = knowledge.succeed("import", str(corpus), "-t", tenant, "--json").json
    assert (first["created"], first["skipped_empty"], first["failed"], first["without_vector"]) == (2, 1, 0, 0)
    again = knowledge.succeed("import", str(corpus), "-t", tenant, "--json").json
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 2)

    entries = {entry["external_id"]: entry for entry in exported(knowledge, tenant)}
    assert entries.keys() == {"1", "2"}
    assert (entries["1"]["title"], entries["2"]["title"]) == ("Tides", None)
    assert entries["2"]["metadata"] == {"year": 2026}
    # The mock's vectors match a text only with itself: it was embedded.
    found = knowledge.succeed("search", BEIR[1]["text"], "-t", tenant, "--mode", "semantic", "--json").json
    assert found["results"][0]["similarity"] == pytest.approx(1, abs=0.01)


def test_import_without_waiting_leaves_vectors_for_later(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    corpus = write_lines(tmp_path / "corpus.jsonl", BEIR)
    result = knowledge.succeed("import", str(corpus), "-t", tenant, "--no-wait")
    assert result.out == "2 created, 0 updated, 0 unchanged, 1 skipped empty, 0 failed, 0 dropped references\n"
    assert "2 entries have no vector yet" in result.err


def test_import_lists_refused_lines(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    lines: list[Any] = [{"content": "good"}, ["no object"], {"content": "x", "confidence": 2}, {"content": 7}]
    file = write_lines(tmp_path / "mixed.jsonl", lines)
    file.write_text(file.read_text() + "{broken\n")
    result = knowledge("import", str(file), "-t", tenant)
    assert result.status == 1
    assert result.out.startswith("1 created, 0 updated, 0 unchanged, 0 skipped empty, 4 failed")
    for reason in (
        "line 2: is not an object with fields",
        "line 3: confidence: must be at most 1",
        "line 4: content: must be text",
        "line 5: is not JSON",
    ):
        assert f"failed: {reason}" in result.err


@pytest.mark.slow
def test_import_shows_only_the_first_refusals(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "bad.jsonl", [[n] for n in range(13)])
    result = knowledge("import", str(file), "-t", tenant)
    assert result.err.count("failed: line") == 10
    assert "failed: and 3 more" in result.err


@pytest.mark.slow
def test_import_drops_references_without_a_target(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    missing = "0198c5a2-0000-7000-8000-000000000000"
    lines = [{"id": "a", "content": "alone", "parent_id": missing, "source_ids": [missing, "nonsense"]}]
    result = knowledge.succeed("import", str(write_lines(tmp_path / "a.jsonl", lines)), "-t", tenant, "--json").json
    assert (result["created"], result["dropped_references"], result["failed"]) == (1, 3, 0)
    (entry,) = exported(knowledge, tenant)
    assert (entry["parent_id"], entry["source_ids"]) == (None, [])


def test_import_keeps_references_when_another_record_of_the_line_is_refused(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    records = [
        {"id": "a", "content": "parent"},
        {"id": "b", "content": "child", "parent_id": "a"},
        {"content": "no such scope", "scope": "everywhere"},
        {"content": "no such field", "body": "x"},
    ]
    (tmp_path / "a.json").write_text(json.dumps(records))
    result = knowledge("import", "a.json", "-t", tenant, "--json").json
    assert (result["created"], result["failed"]) == (2, 2)
    entries = {entry["content"]: entry for entry in exported(knowledge, tenant)}
    assert entries["child"]["parent_id"] == entries["parent"]["id"]


def test_import_names_the_type_that_a_field_must_have(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "- content: 12\n- {content: a, tags: solo}\n- {content: b, external_id: 7}\n- {content: c, title: 1}\n"
    )
    result = knowledge("import", "a.yaml", "-t", tenant, "--json").json
    assert result["failed"] == 4
    for reason in ("content: must be text", "tags: must be a list", "external_id: must be text", "title: must be text"):
        assert any(given.startswith(reason) for given in result["reasons"]), reason


@pytest.mark.slow
def test_import_of_a_truncated_export_is_reported_and_can_be_repeated(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    lines = [{"content": f"text {n}"} for n in range(5)]
    knowledge.succeed("import", str(write_lines(tmp_path / "a.jsonl", lines)), "-t", tenant)
    knowledge.succeed("export", "-t", tenant, "-o", "whole.jsonl")
    whole = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "half.jsonl").write_bytes(b"".join(whole[:3]))
    copy = f"{tenant[:50]}-copy"
    knowledge.succeed("tenant", "create", copy)
    result = knowledge("import", "half.jsonl", "-t", copy)
    assert result.status == 1
    assert "failed: line 3: the export is truncated; its complete part was imported" in result.err
    done = knowledge.succeed("import", "whole.jsonl", "-t", copy, "--json").json
    assert (done["created"], done["unchanged"], done["failed"]) == (3, 2, 0)


def test_import_refuses_unknown_shapes_and_counts_reasons(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", [{"id": "1", "body": "hello"}, {"body": "again", "id": "2"}])
    result = knowledge("import", str(file), "-t", tenant, "--json")
    assert result.status == 1
    assert (result.json["failed"], result.json["skipped_empty"]) == (2, 0)
    assert result.json["reasons"] == {"has no field content; its fields are: body, id": 2}
    assert result.json["failures"][0]["line"] == 1


def test_import_reads_every_format(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    for name, text in (
        ("a.json", '[{"content": "Array.", "external_id": "x", "tags": ["t"]}]'),
        ("a.yaml", "- content: Yaml.\n"),
        ("a.csv", 'content,tags\nCsv.,"a, b"\n'),
        ("b.json", '[{"content": "Array again.", "external_id": "x"}]'),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert knowledge.succeed("import", str(tmp_path / name), "-t", tenant, "--json").json["failed"] == 0
    entries = {entry["content"]: entry["tags"] for entry in exported(knowledge, tenant)}
    assert entries == {"Array again.": ["t"], "Yaml.": [], "Csv.": ["a", "b"]}, "omitted fields keep their value"


@pytest.mark.slow
def test_import_clears_the_tenant_after_asking(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("# Old\n\nBoats lie here.")
    knowledge.succeed("ingest", str(tmp_path / "old.md"), "-t", tenant)
    knowledge.succeed("import", str(write_lines(tmp_path / "old.jsonl", [{"content": "old"}])), "-t", tenant)
    unknown = write_lines(tmp_path / "unknown.jsonl", [{"body": "x"}])
    refused = knowledge("import", str(unknown), "-t", tenant, "--clear", "--yes")
    assert refused.status != 0
    assert "nothing was deleted; line 1: has no field content" in refused.err
    new = write_lines(tmp_path / "new.jsonl", [{"content": "new"}])
    unasked = knowledge("import", str(new), "-t", tenant, "--clear")
    assert (unasked.status, unasked.err) == (1, "error: --yes: is required without a terminal\n")
    assert len(exported(knowledge, tenant)) == 2
    result = knowledge.succeed("import", str(new), "-t", tenant, "--clear", "--yes")
    assert "deleted 1 assets with their chunks, and 1 entries" in result.err
    assert [entry["content"] for entry in exported(knowledge, tenant)] == ["new"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_import_names_the_field_of_what_cannot_be_stored(
    knowledge: CommandLine, tenant: str, tmp_path: Path, name: str
) -> None:
    lines = [
        r'{"content": "a \ud800"}',
        r'{"content": "a", "metadata": {"n": "\udc00"}}',
        '{"content": "a", "metadata": {"n": 99999999999999999999999}}',
        r'{"\ud800": 1}',
        r'{"content": "with an escaped \\ud800"}',
    ]
    text = "\n".join(lines) if name == "a.jsonl" else f"[{','.join(lines)}]"
    (tmp_path / name).write_text(text)
    result = knowledge("import", name, "-t", tenant, "--json").json
    assert (result["created"], result["failed"]) == (1, 4)
    reasons = {failure["line"]: failure["error"] for failure in result["failures"]}
    if name == "a.json":  # all in one line
        assert set(result["reasons"].values()) == {1, 2}
        return
    content, nested, number, unknown = (reasons[line] for line in range(1, 5))
    assert content == "content: must not contain lone surrogates"
    assert nested == number
    assert nested.startswith("metadata: must be a JSON object of at most 65536 bytes")
    assert "integers of at most 64 bits, no NUL and no lone surrogates" in nested
    assert unknown == "has no field content; its fields are: \\ud800"
