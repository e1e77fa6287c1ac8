"""Folders and remote stores as origins."""

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

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


fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Lists folders and serves files; `broken` are paths that it answers with 500."""

    broken: set[str]

    def __init__(self, *arguments: Any, broken: set[str], **options: Any) -> None:
        self.broken = broken
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        if self.path in self.broken:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            super().do_GET()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def broken() -> set[str]:
    return set()


@pytest.fixture
def site(tmp_path: Path, broken: set[str]) -> Iterator[str]:
    root = tmp_path / "site"
    (root / "deep" / "empty").mkdir(parents=True)
    (root / "tides.md").write_text("The harbour falls dry.\n")
    (root / "deep" / "a name.md").write_text("A mooring.\n")
    (root / "deep" / "tides.md").write_text("The harbour falls dry.\n")
    (root / ".hidden.md").write_text("hidden\n")
    handler = functools.partial(Handler, directory=str(tmp_path), broken=broken)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/site/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("end", ["", "/"])
def test_web_server_is_listed_with_its_folders(site: str, end: str) -> None:
    with RemoteStore(site.rstrip("/") + end, Exclusions()).open() as opened:
        listing = opened.list_files()
        files = {file.path: opened.read(file, 100) for file in listing.files}
    harbour = b"The harbour falls dry.\n"
    assert files == {"tides.md": harbour, "deep/a name.md": b"A mooring.\n", "deep/tides.md": harbour}
    digests = {file.path: file.digest for file in listing.files}
    assert digests["tides.md"] == digests["deep/tides.md"]
    assert listing.skipped == [(".hidden.md", "hidden")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", ["/site/", "/site/deep/", "/site/tides.md"])
def test_folder_or_file_that_cannot_be_read_fails_the_listing(site: str, broken: set[str], path: str) -> None:
    broken.add(path)
    with RemoteStore(site, Exclusions()).open() as opened, pytest.raises(OriginUnavailable, match="cannot be read"):
        opened.list_files()


def test_server_that_does_not_answer_fails_the_listing() -> None:
    with RemoteStore("http://127.0.0.1:9/site/", Exclusions()).open() as opened, pytest.raises(OriginUnavailable):
        opened.list_files()


def test_store_in_memory_is_listed() -> None:
    store = fsspec.filesystem("memory")
    store.pipe({"/shelf/a.md": b"A", "/shelf/b/c.md": b"C", "/elsewhere/d.md": b"D"})
    try:
        with RemoteStore("memory://shelf", Exclusions()).open() as opened:
            assert {f.path: opened.read(f, 10) for f in opened.list_files().files} == {"a.md": b"A", "b/c.md": b"C"}
        with RemoteStore("memory://none", Exclusions()).open() as opened, pytest.raises(OriginUnavailable):
            opened.list_files()
    finally:
        store.rm("/", recursive=True)


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(OriginUnavailable), RemoteStore("nothing://a", Exclusions()).open():
        pass
