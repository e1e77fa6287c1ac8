from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.entry_lines import parse_line
from tests.cli.conftest import CommandLine, write_lines

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
    assert (first["created"], first["skipped_empty"], first["failed"], first["without_vector"]) == (
        2,
        1,
        0,
        0,
    )
    again = knowledge.succeed("import", str(corpus), "-t", tenant, "--json").json
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 2)

    entries = {entry["external_id"]: entry for entry in exported(knowledge, tenant)}
    assert entries.keys() == {"1", "2"}
    assert (entries["1"]["title"], entries["2"]["title"]) == ("Tides", None)
    assert entries["2"]["metadata"] == {"year": 2026}
    # The mock's vectors find a text by itself: it was embedded.
    found = knowledge.succeed("search", BEIR[1]["text"], "-t", tenant, "--mode", "semantic", "--json").json
    assert found["results"][0]["similarity"] == pytest.approx(1, abs=0.01)


def test_import_without_waiting_leaves_vectors_for_later(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    corpus = write_lines(tmp_path / "corpus.jsonl", BEIR)
    result = knowledge.succeed("import", str(corpus), "-t", tenant, "--no-wait")
    assert (
        result.out == "2 created, 0 updated, 0 unchanged, 1 skipped empty, 0 failed, 0 dropped references\n"
    )
    assert "2 entries have no vector yet" in result.err


def test_import_lists_lines_that_were_refused(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    lines: list[Any] = [{"content": "good"}, ["no object"], {"content": "x", "confidence": 2}, {"content": 7}]
    file = write_lines(tmp_path / "mixed.jsonl", lines)
    file.write_text(file.read_text() + "{broken\n")
    result = knowledge("import", str(file), "-t", tenant)
    assert result.status == 1
    assert result.out.startswith("1 created, 0 updated, 0 unchanged, 0 skipped empty, 4 failed")
    for reason in (
        "line 2: is not a JSON object",
        "line 3: confidence: must be a number between 0 and 1",
        "line 4: content: must have",
        "line 5: is not JSON",
    ):
        assert f"failed: {reason}" in result.err


def test_import_shows_only_the_first_refusals(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "bad.jsonl", [[n] for n in range(13)])
    result = knowledge("import", str(file), "-t", tenant)
    assert result.err.count("failed: line") == 10
    assert "failed: and 3 more" in result.err


@pytest.mark.slow
def test_export_comes_back_with_its_relations(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
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
        {**drafts[0], "superseded_by_id": opened, "id": "ignored", "source_ids": [wall]},
    ]
    done = knowledge.succeed(
        "import", str(write_lines(tmp_path / "more.jsonl", related)), "-t", tenant, "--json"
    )
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
def test_import_drops_references_that_lead_nowhere(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    missing = "0198c5a2-0000-7000-8000-000000000000"
    lines = [{"id": "a", "content": "alone", "parent_id": missing, "source_ids": [missing, "nonsense"]}]
    result = knowledge.succeed(
        "import", str(write_lines(tmp_path / "a.jsonl", lines)), "-t", tenant, "--json"
    ).json
    assert (result["created"], result["dropped_references"], result["failed"]) == (1, 3, 0)
    (entry,) = exported(knowledge, tenant)
    assert (entry["parent_id"], entry["source_ids"]) == (None, [])


@pytest.mark.slow
def test_export_brings_assets_settings_and_vectors_back(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("A note about the crane.")
    knowledge.succeed("ingest", "note.txt", "-t", tenant, "--tag", "crane")
    result = knowledge.succeed("export", "-t", tenant, "--vectors", "-o", "all.jsonl")
    assert result.err.endswith("1 entries and chunks, 1 assets written with vectors\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.jsonl", "note.txt"]
    copy = f"{tenant[:50]}-copy"
    knowledge.succeed("tenant", "create", copy)
    # Without waiting and without a worker: nothing has to be made again.
    imported = knowledge.succeed("import", "all.jsonl", "-t", copy, "--no-wait", "--json").json
    assert (imported["created"], imported["assets"], imported["without_vector"]) == (1, 1, 0)
    first, second = (
        knowledge.succeed("export", "-t", slug, "--vectors").out.splitlines() for slug in (tenant, copy)
    )
    assert first[1:] == second[1:]
    (hit,) = knowledge.succeed(
        "search", "A note about the crane.", "-t", copy, "--mode", "semantic", "--json"
    ).json["results"]
    assert (hit["asset_name"], hit["tags"]) == ("note.txt", ["crane"])
    again = knowledge.succeed("ingest", "note.txt", "-t", copy, "--tag", "crane")
    assert again.out == "1 file: 0 indexed, 1 unchanged, 0 skipped, 0 failed\n"


def test_export_that_fails_leaves_no_half_of_a_file(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    (tmp_path / "old.jsonl").write_text("the former export")
    assert knowledge("export", "-t", "nobody", "-o", "old.jsonl").status == 1
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("old.jsonl", "the former export")]


@pytest.mark.slow
def test_import_of_an_export_that_is_cut_short_says_so_and_can_be_done_again(
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
    assert "failed: line 3: the export is cut short; what it has was written" in result.err
    done = knowledge.succeed("import", "whole.jsonl", "-t", copy, "--json").json
    assert (done["created"], done["unchanged"], done["failed"]) == (3, 2, 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"content": "x", "expires_at": "soon"}, "expires_at: must be a date"),
        ({"content": "x", "source_ids": [1]}, "source_ids: must hold ids"),
    ],
)
def test_line_out_of_range_is_refused_with_a_reason(line: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_line(1, json.dumps(line).encode())


def exported(knowledge: CommandLine, tenant: str) -> list[dict[str, Any]]:
    lines = knowledge.succeed("export", "-t", tenant).out.splitlines()
    return [entry for line in lines if (entry := json.loads(line))["kind"] == "entry"]


def by_content(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries without their ids; references stand for the content that they lead to."""
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
