"""Git repositories as origins."""

import os
import shutil
import subprocess
from collections.abc import Callable
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


def write_tree(root: Path, *entries: tuple[str, bytes, str]) -> str:
    """Write a tree as it is, with names that git itself refuses; each entry has a mode, a name and an object."""
    content = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(at) for mode, name, at in entries)
    command = ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    done = subprocess.run(command, cwd=root, input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def hostile(repository: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a commit of these entries the branch `hostile` of the repository."""

    def commit(*entries: tuple[str, bytes, str]) -> Path:
        made = git(repository, "commit-tree", "-m", "hostile", write_tree(repository, *entries))
        git(repository, "update-ref", "refs/heads/hostile", made)
        return repository

    return commit


def test_names_that_lead_out_of_the_repository_read_only_its_own_blobs(
    repository: Path, tmp_path: Path, hostile: Callable[..., Path]
) -> None:
    (tmp_path / "outside.md").write_text("outside\n")
    blob = git(repository, "rev-parse", "HEAD:tides.md")
    tree = write_tree(repository, ("100644", b"passwd", blob))
    names = [
        b"../outside.md", b"/etc/passwd", b"a\\..\\b.md", b"-rf.md", b"--upload-pack=touch broken",
        b"$(touch broken).md",
        b"new\nline.md", b"tab\there.md", b"\x1b[2J.md", b"C:evil.md", b"nul", " right\u202egnp.md".encode(),
    ]  # fmt: skip
    hostile(*((("100644", name, blob)) for name in names), ("40000", b"..", tree), ("40000", b"~", tree))
    with GitRepository(str(repository), "hostile", Exclusions()).open() as opened:
        listing = opened.list_files()
        read = {file.path: opened.read(file, 1_000) for file in listing.files}
    assert set(read.values()) == {b"The harbour is deep.\n"}, (
        "the content of the commit, never that of a file elsewhere"
    )
    # Hidden as every name with a leading dot; a path is an id, and is opened nowhere.
    assert dict(listing.skipped) == {"../outside.md": "hidden", "../passwd": "hidden"}
    assert set(read) == {name.decode() for name in names[1:]} | {"~/passwd"}
    assert not list(tmp_path.rglob("broken"))


@pytest.mark.parametrize("name", [b"not \xff utf-8.md", b"x" * 513])
def test_a_name_that_cannot_be_an_id_fails_the_listing(
    repository: Path, hostile: Callable[..., Path], name: bytes
) -> None:
    hostile(("100644", name, git(repository, "rev-parse", "HEAD:tides.md")))
    with pytest.raises(OriginUnavailable, match="exclude it"):
        read(str(repository), "hostile")


def test_links_out_of_the_tree_and_submodules_are_not_followed(
    repository: Path, tmp_path: Path, hostile: Callable[..., Path]
) -> None:
    """A link replaced by a folder of the same name, and submodules that would fetch or run something."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret\n")
    (repository / "target").write_text(str(outside))
    link = git(repository, "hash-object", "-w", "target")
    (repository / "modules").write_text(
        f'[submodule "m"]\n\tpath = m\n\turl = ext::touch {tmp_path}/broken\n\tupdate = !touch {tmp_path}/broken\n'
        f'[submodule "../../x"]\n\tpath = secret\n\turl = {outside}\n'
    )
    modules, blob = git(repository, "hash-object", "-w", "modules"), git(repository, "rev-parse", "HEAD:tides.md")
    elsewhere = git(repository, "rev-parse", "v1")
    hostile(
        ("100644", b".gitmodules", modules),
        ("120000", b"link", link),
        ("40000", b"link", write_tree(repository, ("100644", b"evil.md", blob))),
        ("160000", b"m", elsewhere),
        ("160000", b"secret", "1" * 40),
    )
    with GitRepository(str(repository), "hostile", Exclusions()).open() as opened:
        listing = opened.list_files()
        assert [opened.read(file, 1_000) for file in listing.files] == [b"The harbour is deep.\n"]
    assert [file.path for file in listing.files] == ["link/evil.md"]
    assert dict(listing.skipped) == {
        ".gitmodules": "hidden", "link": "a link", "m": "a submodule", "secret": "a submodule",
    }  # fmt: skip
    assert not (tmp_path / "broken").exists()


def test_hooks_filters_and_settings_of_a_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    """Those of a local repository, and `.gitattributes` with a filter that its settings define."""
    mark = tmp_path / "broken"
    (repository / ".gitattributes").write_text("*.md filter=run diff=run export-subst\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "-qm", "attributes")
    for name in ("filter.run.smudge", "filter.run.clean", "diff.run.textconv", "core.fsmonitor", "core.sshCommand"):
        git(repository, "config", name, f"touch {mark}")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "pre-receive", "post-upload-pack"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / name).chmod(0o755)
    found = read(str(repository))
    assert found["tides.md"] == b"The harbour is deep.\n"
    assert not mark.exists()


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
