"""The commands about entries do the same here and at a service elsewhere."""

import io
import sys

import pytest

from tests.cli.conftest import CommandLine

ENTRY_FIELDS = {"id", "title", "content", "tags", "metadata", "version", "embedding_status", "external_id"}


def test_an_entry_is_added_read_changed_explained_and_deleted(anywhere: CommandLine) -> None:
    added = anywhere.succeed(
        *("add", "The crane lifts twelve tons.", "--title", "Crane", "--tag", "quay", "--confidence", "0.5"),
        *("--external-id", "crane-1", "--metadata", '{"year": 2024}', "--expires-at", "2999-01-01T00:00:00Z"),
        "--json",
    ).json
    assert added["created"] is True
    assert added["entry"].keys() >= ENTRY_FIELDS
    entry_id = added["entry"]["id"]
    again = anywhere.succeed("add", "The crane lifts twelve tons.", "--external-id", "crane-1")
    assert again.out == f"exists: entry {entry_id}, version {added['entry']['version']}\n"

    changed = anywhere.succeed(
        *("edit", "crane-1", "--title", "The crane", "--tag", "lift", "--clear", "expires-at", "--verified"),
        *("--if-version", str(added["entry"]["version"]), "--json"),
    ).json
    assert (changed["title"], changed["tags"], changed["expires_at"]) == ("The crane", ["lift"], None)
    assert (changed["is_verified"], changed["metadata"]["year"]) == (True, 2024)
    stale = anywhere("edit", "crane-1", "--title", "x", "--if-version", str(added["entry"]["version"]))
    assert (stale.status, "has changed since it was read" in stale.err) == (1, True)

    assert anywhere.succeed("get", "crane-1", "--json").json == anywhere.succeed("get", entry_id, "--json").json
    shown = anywhere.succeed("get", entry_id).out
    assert "title: The crane\n" in shown
    assert "is verified: yes\n" in shown
    assert 'metadata: {"year": 2024}\n' in shown
    assert shown.endswith("\nThe crane lifts twelve tons.\n")
    assert anywhere.succeed("get", entry_id, "--text").out == "The crane lifts twelve tons.\n"

    page = anywhere.succeed("list", "--tag", "lift", "--json").json
    assert [item["id"] for item in page["items"]] == [entry_id]
    assert page["next_cursor"] is None
    assert anywhere.succeed("list", "--type", "decision", "--json").json["items"] == []
    assert entry_id in anywhere.succeed("list", "--sort", "title").out

    hits = anywhere.succeed("search", "crane", "--mode", "keyword", "--json").json["results"]
    assert [hit["id"] for hit in hits] == [entry_id]
    assert "The crane" in anywhere.succeed("search", "crane", "--explain").out
    why = anywhere.succeed("why-not", "crane-1", "crane", "--tag", "none", "--json").json
    assert (why["in_results"], [r["stage"] for r in why["reasons"]]) == (False, ["filter"])
    assert anywhere.succeed("why-not", "crane-1", "crane").out.startswith("among the results, rank 1\n")
    for given in (entry_id, "crane-1"):
        assert anywhere.succeed("related", given, "--json").json["results"] == []
    assert anywhere("related", "unknown-1").err == "error: there is no entry with this id\n"

    assert anywhere("delete", entry_id).err == "error: --yes: is required without a terminal\n"
    gone = anywhere("delete", "crane-1", "unknown-1", "--yes", "--json")
    assert (gone.status, gone.json) == (1, {"deleted": [entry_id], "missing": ["unknown-1"]})
    missing = anywhere("get", entry_id)
    assert (missing.status, missing.err) == (1, "error: there is no entry with this id\n")


def test_a_text_is_read_from_standard_input(anywhere: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Größe\nzählt".encode())))
    assert anywhere.succeed("add", "-", "--json").json["entry"]["content"] == "Größe\nzählt"


def test_invalid_fields_are_named_before_anything_is_written(anywhere: CommandLine) -> None:
    refused = anywhere("add", "x", "--confidence", "2", "--type", "chunk", "--json")
    assert refused.status == 1
    assert '"field":"confidence"' in refused.err
    assert '"field":"entry_type"' in refused.err
    assert anywhere("add", "x", "--metadata", "[").err == "error: metadata: must be a JSON object\n"
    assert "name at least one field" in anywhere("edit", "x").err
    assert "must be one of title, tags" in anywhere("edit", "x", "--clear", "content").err
    assert "title is also given" in anywhere("edit", "x", "--title", "a", "--clear", "title").err
    assert anywhere("list", "--limit", "0").err.startswith("error: limit: must be ")
    assert anywhere("list", "--status", "failed").status == 1
    assert anywhere.succeed("list", "--json").json["items"] == []
