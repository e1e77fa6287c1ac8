"""Git repositories as origins."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from app.origins.git import GitRepository
from app.origins.origin import Exclusions, OriginUnavailable

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def git(folder: Path, *arguments: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | identity, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits; the first is tagged, and a change is not committed."""
    root = tmp_path / "wiki"
    (root / "deep").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "tides.md").write_text("The harbour falls dry.\n")
    (root / "deep" / "Ünïcode name.md").write_text("A mooring.\n")
    (root / ".hidden.md").write_text("hidden\n")
    (root / "link.md").symlink_to("tides.md")
    (root / "large.bin").write_text(POINTER)
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "v1")
    (root / "tides.md").write_text("The harbour is deep.\n")
    git(root, "commit", "-qam", "second")
    (root / "tides.md").write_text("not committed\n")
    return root


def read(url: str, ref: str | None = None) -> dict[str, bytes]:
    with GitRepository(url, ref, Exclusions()).open() as opened:
        return {file.path: opened.read(file, 1_000) for file in opened.list_files().files}


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_repository_has_the_files_of_its_commit(repository: Path, form: str) -> None:
    url = form.format(repository)
    commit = git(repository, "rev-parse", "v1")
    now = {"tides.md": b"The harbour is deep.\n", "deep/Ünïcode name.md": b"A mooring.\n"}
    before = now | {"tides.md": b"The harbour falls dry.\n"}
    found = {ref: read(url, ref) for ref in (None, "main", "v1", commit, commit[:9])}
    assert found == {None: now, "main": now, "v1": before, commit: before, commit[:9]: before}


def test_links_hidden_files_and_pointers_are_left_out(repository: Path) -> None:
    with GitRepository(str(repository), None, Exclusions()).open() as opened:
        listing = opened.list_files()
    assert dict(listing.skipped) == {
        ".hidden.md": "hidden",
        "link.md": "a link",
        "large.bin": "its content is in Git LFS",
    }
    assert all(file.digest.startswith("git:") for file in listing.files)


def test_digest_depends_on_the_content_alone(repository: Path) -> None:
    def digests(ref: str) -> dict[str, str]:
        with GitRepository(str(repository), ref, Exclusions()).open() as opened:
            return {file.path: file.digest for file in opened.list_files().files}

    first, second = digests("v1"), digests("main")
    assert first["deep/Ünïcode name.md"] == second["deep/Ünïcode name.md"]
    assert first["tides.md"] != second["tides.md"]


@pytest.mark.parametrize(
    ("url", "ref"),
    [
        ("{}/none", None),
        ("{}", "none"),
        ("{}", "--upload-pack=touch /tmp/broken"),
        ("--upload-pack=touch", None),
        ("ext::sh -c touch% /tmp/broken", None),
    ],
)
def test_what_cannot_be_fetched_fails(repository: Path, url: str, ref: str | None) -> None:
    with pytest.raises(OriginUnavailable):
        read(url.format(repository), ref)
    assert not Path("/tmp/broken").exists()  # noqa: S108


def test_a_folder_that_is_not_a_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(OriginUnavailable, match=f"'{tmp_path}' does not appear to be a git repository$"):
        read(str(tmp_path))


def test_an_unknown_branch_is_named(repository: Path) -> None:
    with pytest.raises(OriginUnavailable, match="nowhere is not a branch, tag or commit of the repository"):
        read(str(repository), "nowhere")


def test_variables_of_another_repository_are_ignored(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    assert read(str(repository))
