"""`knowledge sync`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

WORDS = ("amber", "basalt", "copper", "dolomite", "emerald", "feldspar")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    root.mkdir()
    for word in WORDS:
        (root / f"{word}.md").write_text(f"The {word} mine is open.\n")
    (root / ".hidden.md").write_text("hidden\n")
    return root


def test_runs_of_a_folder_add_move_replace_and_remove_files(knowledge: CommandLine, tenant: str, folder: Path) -> None:
    def sync(*options: str) -> dict[str, object]:
        told: dict[str, object] = knowledge.succeed(
            "sync", "docs", str(folder), "--tenant", tenant, "--json", *options
        ).json
        return told

    first = sync()
    assert first["source"]["agrees"] is True  # type: ignore[index]
    assert (first["added"], first["skipped"]) == (6, [{"path": ".hidden.md", "reason": "hidden"}])
    (folder / "deep").mkdir()
    (folder / "amber.md").rename(folder / "deep" / "amber.md")
    (folder / "basalt.md").write_text("The basalt mine is closed.\n")
    (folder / "copper.md").unlink()
    second = sync()
    assert [second[name] for name in ("added", "changed", "moved", "removed")] == [0, 1, 1, 1]
    shown = knowledge.succeed("search", "basalt", "--tenant", tenant, "--mode", "keyword", "--limit", "1")
    assert "closed" in shown.out
    assert "from docs, which agreed with its origin at" in shown.out
    for word in ("dolomite", "emerald"):
        (folder / f"{word}.md").unlink()
    refused = knowledge("sync", "docs", str(folder), "--tenant", tenant)
    assert refused.status == 1
    assert "would delete 2 of 5 assets" in refused.err
    assert "knowledge sync --confirm-deletions" in refused.err
    assert sync("--confirm-deletions", "--exclude", "feldspar.md")["removed"] == 3
    told = knowledge.succeed("sync", "docs", str(folder), "--tenant", tenant, "--exclude", "feldspar.md")
    assert told.out.startswith("2 files: 0 new, 0 changed, 0 moved, 0 removed; 2 left out, 0 refused, 0 failed\n")
    assert "docs agrees with its origin as of " in told.out


def test_files_have_the_readers_of_the_last_pattern_that_matches(
    knowledge: CommandLine, tenant: str, folder: Path
) -> None:
    (folder / "pay").mkdir()
    for name in ("pay/wages.md", "pay/bonus.md"):
        (folder / name).write_text(f"The payroll of {name} is due.\n")
    given = (
        "--writer",
        "user:crawler",
        "--readers-of",
        "pay/*=group:hr",
        "--readers-of",
        "pay/b*=group:board",
    )
    synced = knowledge.succeed("sync", "docs", str(folder), "-t", tenant, *given, "--readers-of", "Pay/*=user:x")
    assert "--readers-of: Pay/* matches no file" in synced.err
    assets = knowledge.succeed("list", "--assets", "--limit", "20", "-t", tenant, "--json").json["items"]
    assert {asset["external_id"]: asset["readers"] for asset in assets if asset["readers"]} == {
        "pay/wages.md": ["group:hr", "user:crawler"],
        "pay/bonus.md": ["group:board", "user:crawler"],
    }
    assert {tuple(asset["writers"]) for asset in assets} == {("user:crawler",)}
    told = knowledge.succeed("sync", "docs", str(folder), "-t", tenant, *given, "--json").json
    assert (told["unmatched"], told["changed"]) == ([], 0)
    for wrong in ("pay/*", "=group:hr", "pay/*=hr", "pay/*=group:hr,"):
        refused = knowledge("sync", "docs", str(folder), "-t", tenant, "--readers-of", wrong)
        assert (refused.status, refused.out) == (1, "")
        assert refused.err.startswith("error: --readers-of: must be PATTERN=PRINCIPAL,PRINCIPAL")


def test_origin_that_cannot_be_listed_changes_nothing(knowledge: CommandLine, tenant: str, folder: Path) -> None:
    knowledge.succeed("sync", "docs", str(folder), "--tenant", tenant)
    failed = knowledge("sync", "docs", str(folder / "none"), "--tenant", tenant, "--allow-empty")
    assert (failed.status, failed.out) == (1, "")
    assert "none is not a folder" in failed.err
    assert "basalt" in knowledge.succeed("search", "basalt", "--tenant", tenant).out
