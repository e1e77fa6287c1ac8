"""Folders as origins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.origins import choose_origin
from app.origins.folder import Folder
from app.origins.git import GitRepository
from app.origins.origin import Exclusions, OriginFile, OriginUnavailable
from app.origins.remote import RemoteStore

NO_RIGHTS = pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    root = tmp_path / "docs"
    (root / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "tides.md").write_text("The harbour falls dry.\n")
    (root / "deep" / "moorings.txt").write_text("Every mooring is inspected.\n")
    (root / ".hidden.txt").write_text("hidden\n")
    (root / ".git" / "config.txt").write_text("hidden too\n")
    return Folder(root, Exclusions())


def test_folder_lists_its_files_with_digests(folder: Folder) -> None:
    listing = folder.list_files()
    assert [(f.path, f.size) for f in listing.files] == [("tides.md", 23), ("deep/moorings.txt", 28)]
    assert all(f.digest.startswith("sha256:") for f in listing.files)
    assert sorted(listing.skipped) == [(".git", "hidden"), (".hidden.txt", "hidden")]
    assert folder.read(listing.files[0], 100) == b"The harbour falls dry.\n"
    assert folder.read(listing.files[0], 5) == b"The ha"


def test_links_and_devices_are_left_out(folder: Folder) -> None:
    (folder.path.parent / "key.txt").write_text("the signing key\n")
    (folder.path / "key.txt").symlink_to("../key.txt")
    (folder.path / "own.md").symlink_to("tides.md")
    (folder.path / "parent").symlink_to("..")
    os.mkfifo(folder.path / "pipe")
    skipped = dict(folder.list_files().skipped)
    reasons = {name: skipped[name] for name in ("key.txt", "own.md", "parent", "pipe")}
    assert reasons == {"key.txt": "a link", "own.md": "a link", "parent": "a link", "pipe": "not a file"}
    with pytest.raises(OriginUnavailable):
        folder.read(OriginFile("key.txt", "sha256:0"), 100)


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("*.txt", ["tides.md"]),
        ("deep", ["tides.md"]),
        ("deep/*", ["tides.md"]),
        ("deep/", ["tides.md"]),
        ("tides.md", ["deep/moorings.txt"]),
        ("d*/moor*", ["tides.md"]),
        ("other/*", ["tides.md", "deep/moorings.txt"]),
    ],
)
def test_excluded_files_are_left_out(folder: Folder, pattern: str, left: list[str]) -> None:
    listing = Folder(folder.path, Exclusions((pattern,))).list_files()
    assert [f.path for f in listing.files] == left


def test_missing_folder_is_not_an_empty_one(folder: Folder) -> None:
    with pytest.raises(OriginUnavailable, match="is not a folder"):
        Folder(folder.path / "none", Exclusions()).list_files()


@NO_RIGHTS
def test_unreadable_folder_fails_the_listing(folder: Folder) -> None:
    (folder.path / "deep").chmod(0)
    with pytest.raises(OriginUnavailable, match="deep cannot be read"):
        folder.list_files()


@NO_RIGHTS
def test_unreadable_file_fails_the_listing(folder: Folder) -> None:
    (folder.path / "tides.md").chmod(0)
    with pytest.raises(OriginUnavailable, match=r"tides\.md cannot be read"):
        folder.list_files()


def test_name_that_is_not_utf8_fails_the_listing(folder: Folder) -> None:
    Path(os.fsdecode(os.fsencode(folder.path) + b"/\xff.md")).write_text("x")
    with pytest.raises(OriginUnavailable, match="UTF-8"):
        folder.list_files()


def test_kind_of_an_origin_is_known_by_its_form(tmp_path: Path) -> None:
    kinds = {
        "docs": Folder,
        "file:///docs/my%20files": Folder,
        "git+https://example.com/wiki": GitRepository,
        "https://example.com/wiki.git": GitRepository,
        "git@example.com:wiki": GitRepository,
        "ssh://example.com/wiki": GitRepository,
        "https://example.com/files/": RemoteStore,
        "s3://bucket/files": RemoteStore,
    }
    assert {named: type(choose_origin(named)) for named in kinds} == kinds
    assert isinstance(choose_origin(str(tmp_path), "main"), GitRepository)
    assert choose_origin("file:///docs/my%20files").description == "/docs/my files"
    assert choose_origin("https://ada:secret@example.com/a?token=1").description == "https://example.com/a"
    assert choose_origin("https://ada:secret@example.com/a.git", "main").description == "https://example.com/a.git main"
    assert choose_origin("https://ada:s@cret@example.com/a.git").description == "https://example.com/a.git"
