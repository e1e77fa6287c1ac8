"""knowledge ingest and sync."""

import signal
from pathlib import Path

import pytest

from app.cli.door import Door
from app.cli.ingest import find_files, name_file
from app.cli.waiting import AssetWatch, wait_for_embeddings
from app.composition.services import Services, working
from app.concurrency.patience import Patience
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.errors import InvalidInput
from tests.cli.conftest import CommandLine, running
from tests.documents.ocr.pages import ENGLISH, join_pdfs, needs_no_ocr, write_scan
from tests.documents.pictured import BEFORE, write_pictured, write_table_picture
from tests.fixtures.documents import write_pdf
from tests.fixtures.door import at_door
from tests.fixtures.embedded import wait_until
from tests.fixtures.providers.failing import FailingProvider


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with two texts (one in a subfolder), a hidden text, and an image."""
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "tides.md").write_text("# Tides\n\nThe harbour falls dry at spring tide.\n")
    (folder / "deep" / "moorings.txt").write_text("Every mooring is inspected in March.\n")
    (folder / ".hidden.txt").write_text("hidden\n")
    (folder / ".git" / "config.txt").write_text("hidden too\n")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    return folder


def test_files_of_a_folder_are_found_except_hidden_ones(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs.parent)
    found = [(f.external_id, f.named) for f in find_files(["docs"])]
    assert found == [("docs/photo.png", False), ("docs/tides.md", False), ("docs/deep/moorings.txt", False)]


def test_files_are_found_by_pattern_and_each_once(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs)
    found = [f.external_id for f in find_files(["tides.md", "**/*.txt", str(docs / "tides.md")])]
    assert found == ["tides.md", "deep/moorings.txt"]
    with pytest.raises(InvalidInput, match=r"there is no file \*\.pdf"):
        list(find_files(["*.pdf"]))


@pytest.fixture
def linked(docs: Path) -> Path:
    """A folder whose links lead out of it, to a hidden file, to a folder, and to a file of its own."""
    (docs.parent / "secret").mkdir()
    (docs.parent / "secret" / "key.txt").write_text("the signing key\n")
    (docs / "notes.md").symlink_to("../secret/key.txt")
    (docs / "absolute.md").symlink_to(docs.parent / "secret" / "key.txt")
    (docs / "config.md").symlink_to(".git/config.txt")
    (docs / "outside").symlink_to("../secret")
    (docs / "inside").symlink_to("deep")
    (docs / "own.md").symlink_to("deep/moorings.txt")
    (docs / "dangling.md").symlink_to("nowhere")
    return docs


OUT, HIDDEN = "the link leads out of the folder", "the link leads to a hidden file"


def test_links_out_of_the_folder_are_not_followed(linked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(linked)
    expected = {
        "photo.png": None,
        "tides.md": None,
        "own.md": None,
        "notes.md": OUT,
        "absolute.md": OUT,
        "config.md": HIDDEN,
        "outside": OUT,
        "inside": "a linked folder is not followed",
    }
    assert {file.external_id: file.refusal for file in find_files(["."])} == expected
    # The folder itself may be reached through a link.
    (linked.parent / "entrance").symlink_to(linked)
    through = {file.path.name: file.refusal for file in find_files([str(linked.parent / "entrance")])}
    assert through == expected


def test_links_in_a_pattern_are_not_followed_out(linked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(linked.parent)
    found = {file.external_id: file.refusal for file in find_files(["docs/**/*.md", "docs/*/*.txt"])}
    assert found["docs/absolute.md"] == OUT
    assert found["docs/config.md"] == HIDDEN
    assert found["docs/tides.md"] is None
    assert [file.refusal for file in find_files(["docs/outside/*.txt"])] == [None]


def test_named_link_is_followed(linked: Path) -> None:
    (file,) = find_files([str(linked / "notes.md")])
    with file.open() as data:
        assert (file.refusal, data.read()) == (None, b"the signing key\n")


def test_file_that_becomes_a_link_is_not_read(docs: Path) -> None:
    (file,) = (file for file in find_files([str(docs)]) if file.path.name == "tides.md")
    file.path.unlink()
    file.path.symlink_to(".hidden.txt")
    with pytest.raises(OSError, match="symbolic links"):
        file.open()


def test_ingest_says_which_links_it_skips(knowledge: CommandLine, tenant: str, linked: Path) -> None:
    result = knowledge.succeed("ingest", "docs", "-t", tenant)
    assert f"docs/absolute.md: {OUT}" in result.err
    assert f"docs/config.md: {HIDDEN}" in result.err
    assert "signing" not in knowledge.succeed("export", "-t", tenant).out


@pytest.mark.usefixtures("old_kernel")
def test_ingest_warns_once_of_missing_protections(knowledge: CommandLine, tenant: str, docs: Path) -> None:
    for indexed in ("2 indexed", "0 indexed, 2 unchanged"):
        result = knowledge.succeed("ingest", "docs", "-t", tenant)
        assert indexed in result.out
        (warning,) = [line for line in result.err.splitlines() if "parser less protected" in line]
        assert "Landlock for connections (Linux 6.7)" in warning


def test_file_outside_the_folder_is_named_by_its_full_path(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs / "deep")
    assert name_file(Path("../tides.md")) == (docs / "tides.md").as_posix()
    assert name_file(Path("./moorings.txt")) == "moorings.txt"


@pytest.mark.slow
@needs_no_ocr
def test_ingest_names_pages_without_text(knowledge: CommandLine, tenant: str, docs: Path) -> None:
    scan = join_pdfs(write_pdf([["A page of letters."]]), write_scan([ENGLISH, ENGLISH]))
    (docs / "scan.pdf").write_bytes(scan)
    ended = knowledge.succeed("ingest", "docs/scan.pdf", "-t", tenant)
    assert "pages without text: docs/scan.pdf: 2, 3" in ended.err
    (docs / "scan.pdf").write_bytes(scan + b"\n")
    found = knowledge.succeed("ingest", "docs/scan.pdf", "-t", tenant, "--json").json
    assert found["pages_without_text"] == [{"path": "docs/scan.pdf", "pages": [2, 3]}]
    (docs / "table.odt").write_bytes(write_pictured("odt", write_table_picture()))
    ended = knowledge.succeed("ingest", "docs/table.odt", "-t", tenant)
    assert f"pictures without text, at characters: docs/table.odt: {len(BEFORE)}" in ended.err


def test_ingest_makes_files_searchable_and_repeats_nothing(knowledge: CommandLine, tenant: str, docs: Path) -> None:
    first = knowledge.succeed("ingest", "docs", "-t", tenant, "--tag", "harbour", "--json")
    assert (first.json["files"], first.json["indexed"], first.json["failed"]) == (3, 2, [])
    assert first.json["pages_without_text"] == []
    assert first.json["skipped"][0]["path"] == "docs/photo.png"
    assert "files: 2 of 2" in first.err or "files: 3 of 3" in first.err

    (hit,) = knowledge.succeed("search", "inspected", "-t", tenant, "--mode", "keyword", "--json").json["results"]
    assert (hit["asset_name"], hit["tags"]) == ("moorings.txt", ["harbour"])

    again = knowledge.succeed("ingest", "docs", "-t", tenant, "--tag", "harbour")
    assert again.out == "3 files: 0 indexed, 2 unchanged, 1 skipped, 0 failed\n"

    (docs / "tides.md").write_text("# Tides\n\nThe harbour is dredged now.\n")
    changed = knowledge.succeed("ingest", "docs", "-t", tenant, "--json")
    assert (changed.json["indexed"], changed.json["unchanged"]) == (1, 1)
    results = knowledge.succeed("search", "harbour", "-t", tenant, "--mode", "keyword", "--json").json["results"]
    assert [hit["content"] for hit in results if hit["asset_name"] == "tides.md"] == [
        "# Tides\n\nThe harbour is dredged now."
    ]


def test_ingest_skips_empty_files_of_a_folder(knowledge: CommandLine, tenant: str, docs: Path) -> None:
    (docs / "deep" / "__init__.py").touch()
    (docs / "deep" / "blank.py").write_text(" \n")
    result = knowledge.succeed("ingest", "docs", "-t", tenant)
    assert result.out == "5 files: 2 indexed, 0 unchanged, 3 skipped, 0 failed\n"
    assert "skipped: docs/deep/__init__.py: the file is empty\n" in result.err
    assert "skipped: docs/deep/blank.py: the file is empty\n" in result.err


def test_ingest_reports_failed_files_by_its_status(knowledge: CommandLine, tenant: str, docs: Path) -> None:
    (docs / "empty.txt").touch()
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7\nnot a PDF\n")
    for _ in range(2):
        result = knowledge("ingest", "docs/empty.txt", "docs/broken.pdf", "docs/photo.png", "-t", tenant)
        assert result.status == 1
        assert result.out == "3 files: 0 indexed, 0 unchanged, 0 skipped, 3 failed\n"
        assert "failed: docs/empty.txt: file: the file is empty\n" in result.err
        assert "failed: docs/broken.pdf: " in result.err
        assert "failed: docs/photo.png: " in result.err


def test_refused_ingest_prints_only_the_error(
    knowledge: CommandLine, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = knowledge("ingest", "docs", "-t", "unknown-tenant")
    assert (refused.status, refused.out, refused.err) == (1, "", "error: there is no tenant 'unknown-tenant'\n")
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("KB_DATA_DIR", "nothing")
    refused = knowledge("ingest", "docs/tides.md", "-t", "unknown-tenant")
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert refused.err.startswith("error: KB_DATA_DIR: no database in ")


@pytest.mark.slow
def test_interrupted_ingest_continues_where_it_stopped(knowledge: CommandLine, tenant: str, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(15):
        (folder / f"{n:02}.md").write_text(f"# Berth {n}\n\nBerth {n} is {n} metres wide.\n")
    with running("ingest", "many", "-t", tenant) as process:
        wait_until(lambda: "chunk" in knowledge("search", "berth", "-t", tenant, "--mode", "keyword").out)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
        assert (process.returncode, error.splitlines()[-1]) == (130, "error: interrupted")
        assert "run the same command to resume" in error
    result = knowledge.succeed("ingest", "many", "-t", tenant, "--json").json
    assert result["indexed"] > 0
    assert (result["indexed"] + result["unchanged"], result["failed"]) == (15, [])


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


@pytest.mark.slow
def test_files_have_the_readers_of_the_last_pattern_that_matches(
    knowledge: CommandLine, tenant: str, folder: Path
) -> None:
    (folder / "pay").mkdir()
    for name in ("pay/wages.md", "pay/bonus.md"):
        (folder / name).write_text(f"The payroll of {name} is due.\n")
    given = ("--writer", "user:crawler", "--readers-of", "pay/*=group:hr", "--readers-of", "pay/b*=group:board")
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


@pytest.mark.slow
def test_origin_that_cannot_be_listed_changes_nothing(knowledge: CommandLine, tenant: str, folder: Path) -> None:
    knowledge.succeed("sync", "docs", str(folder), "--tenant", tenant)
    failed = knowledge("sync", "docs", str(folder / "none"), "--tenant", tenant, "--allow-empty")
    assert (failed.status, failed.out) == (1, "")
    assert "none is not a folder" in failed.err
    assert "basalt" in knowledge.succeed("search", "basalt", "--tenant", tenant).out


@pytest.fixture
async def harbour(services: Services) -> Tenant:
    """A tenant of services that only this test uses."""
    return await services.tenants.create(NewTenant("harbour"), actor="test")


async def test_waiting_for_vectors_ends_while_the_provider_is_unavailable(
    services: Services, harbour: Tenant, failing_provider: FailingProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    failing_provider.down = True
    asset, _ = await services.assets.upload(harbour.id, Upload("a.md", b"The harbour falls dry."))

    def watch(door: Door) -> AssetWatch:
        watch = AssetWatch(door)
        watch.waiting[asset.id] = "a.md"
        watch.finish(lambda: None)
        return watch

    async with working(services):
        found = await at_door(services, "harbour", watch)
        assert (found.indexed, found.failed) == (1, [])
        assert await at_door(services, "harbour", lambda door: wait_for_embeddings(door, 0.0)) == 1
    assert "the embedding provider does not answer" in capsys.readouterr().err


async def test_waiting_for_vectors_continues_while_the_provider_answers(services: Services, harbour: Tenant) -> None:
    await services.entries.create_many(harbour.id, [EntryDraft(content=f"text {n}") for n in range(200)])
    async with working(services):
        assert await at_door(services, "harbour", wait_for_embeddings) == 0


def test_work_that_starts_again_is_not_progress() -> None:
    patience = Patience(0.0)
    assert not patience.is_over(3.0)
    assert not patience.is_over(2.5)
    assert patience.is_over(2.98)
    assert patience.is_over(2.5)
    assert not patience.is_over(2.4)
