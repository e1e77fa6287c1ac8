from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from app.cli.export import _whole_file
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
        {**drafts[0], "superseded_by_id": opened, "id": "ignored", "source_ids": [wall]},
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
