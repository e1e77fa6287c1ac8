"""Stores that fsspec reaches: a web server on this machine, and its store in memory."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from app.origins.origin import Exclusions, OriginUnavailable
from app.origins.remote import RemoteStore

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


@pytest.mark.parametrize("path", ["/site/", "/site/deep/", "/site/tides.md"])
def test_folder_or_file_that_cannot_be_read_fails_the_listing(site: str, broken: set[str], path: str) -> None:
    broken.add(path)
    with (
        RemoteStore(site, Exclusions()).open() as opened,
        pytest.raises(OriginUnavailable, match="cannot be read"),
    ):
        opened.list_files()


def test_server_that_does_not_answer_fails_the_listing() -> None:
    with (
        RemoteStore("http://127.0.0.1:9/site/", Exclusions()).open() as opened,
        pytest.raises(OriginUnavailable),
    ):
        opened.list_files()


def test_store_in_memory_is_listed() -> None:
    store = fsspec.filesystem("memory")
    store.pipe({"/shelf/a.md": b"A", "/shelf/b/c.md": b"C", "/elsewhere/d.md": b"D"})
    try:
        with RemoteStore("memory://shelf", Exclusions()).open() as opened:
            assert {f.path: opened.read(f, 10) for f in opened.list_files().files} == {
                "a.md": b"A",
                "b/c.md": b"C",
            }
        with RemoteStore("memory://none", Exclusions()).open() as opened, pytest.raises(OriginUnavailable):
            opened.list_files()
    finally:
        store.rm("/", recursive=True)


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(OriginUnavailable), RemoteStore("nothing://a", Exclusions()).open():
        pass
