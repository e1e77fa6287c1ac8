"""Stores that fsspec reaches by URL, such as s3://bucket/folder. They need the extra `sources`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from app.origins.origin import Exclusions, Listing, OriginFile, OriginUnavailable, check_path, digest_pieces

PIECE = 1 << 20
MOST_FILES = 100_000
MOST_DEPTH = 64
"""Folders inside one another; a store with links in circles has more."""
WEB = frozenset({"http", "https"})
STORED_DIGESTS = frozenset({"s3", "s3a"})
"""Protocols whose ETag identifies the content of any file of the store, so that listing does not read the files."""


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A folder of a store, with its subfolders."""

    url: str
    exclusions: Exclusions

    @property
    def description(self) -> str:
        """The URL without user, password and query."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @contextlib.contextmanager
    def open(self) -> Iterator[_Connected]:
        """Connect, with the credentials that the store's library finds. Raises OriginUnavailable."""
        try:
            import fsspec
        except ImportError as error:
            raise OriginUnavailable("URLs need the extra: pip install 'knowledge-search[sources]'") from error
        protocol = self.url.partition("://")[0]
        with _reporting(self.description):
            # Listings of an earlier run must not answer for this one.
            options = {"skip_instance_cache": True, "use_listings_cache": False}
            store, root = fsspec.core.url_to_fs(self.url, **options)
        yield _Connected(store, root, protocol, self.exclusions)


@dataclass(frozen=True, slots=True)
class _Connected:
    store: Any
    root: str
    protocol: str
    exclusions: Exclusions
    places: dict[str, str] = field(default_factory=dict)

    def list_files(self) -> Listing:
        """All files below the root. Raises OriginUnavailable. The walk of fsspec leaves out folders that it cannot
        list, so this one lists each folder itself."""
        files: list[OriginFile] = []
        skipped: list[tuple[str, str]] = []
        pending = [(self.root, 0)]
        seen = {self.root.rstrip("/")}
        while pending:
            folder, depth = pending.pop()
            if depth > MOST_DEPTH:
                raise OriginUnavailable(f"folders are nested more than {MOST_DEPTH} deep at {folder}")
            with _reporting(folder):
                found = self.store.ls(folder, detail=True)
            for info in sorted(found, key=lambda i: str(i["name"])):
                place = str(info["name"])
                if place.rstrip("/") in seen:
                    continue
                seen.add(place.rstrip("/"))
                path = self._path_of(place)
                reason = self._refuse(place, path)
                if reason is not None:
                    skipped.append((path or place, reason))
                elif info["type"] == "directory":
                    pending.append((place, depth + 1))
                else:
                    files.append(self._describe(place, check_path(path), info))
                    self.places[path] = place
                    if len(files) > MOST_FILES:
                        raise OriginUnavailable(f"there are more than {MOST_FILES:,} files")
        return Listing(sorted(files, key=lambda f: f.path), skipped)

    def read(self, file: OriginFile, most: int) -> bytes:
        """The bytes of a file, up to one more than `most`. Raises OriginUnavailable."""
        place = self.places[file.path]
        data = bytearray()
        for piece in self._pieces(place):
            data += piece
            if len(data) > most:
                break
        if self.protocol in STORED_DIGESTS:
            with _reporting(place):
                info = self.store.info(place, refresh=True)
            if _stored_digest(info) != file.digest:
                raise OriginUnavailable(f"{file.path} has changed since it was listed")
        return bytes(data)

    def _describe(self, place: str, path: str, info: Mapping[str, Any]) -> OriginFile:
        if self.protocol in STORED_DIGESTS and (stored := _stored_digest(info)) is not None:
            return OriginFile(path, stored, int(info["size"]))
        return OriginFile(path, *digest_pieces(self._pieces(place)))

    def _pieces(self, place: str) -> Iterator[bytes]:
        # Servers without ranges answer the whole file at once: block size 0 reads it as a stream.
        options = {"block_size": 0} if self.protocol in WEB else {}
        with _reporting(place), self.store.open(place, "rb", **options) as stream:
            while piece := stream.read(PIECE):
                yield piece

    def _path_of(self, place: str) -> str:
        """The path of a file relative to the root, as it is written in the store."""
        path = place.removeprefix(self.root.rstrip("/")).strip("/") or place.rstrip("/").rpartition("/")[2]
        return unquote(path, errors="surrogateescape") if self.protocol in WEB else path

    def _refuse(self, place: str, path: str) -> str | None:
        if self.protocol in WEB and ("?" in place or "#" in place):
            return "a link with a query"
        if not path or any(part in ("", ".", "..") for part in path.split("/")):
            return "a link that leads elsewhere"
        return self.exclusions.refuse(path)


def _stored_digest(info: Mapping[str, Any]) -> str | None:
    etag = str(info.get("ETag") or "").strip('"')
    return f"etag:{etag}:{info['size']}" if etag else None


@contextlib.contextmanager
def _reporting(place: str) -> Iterator[None]:
    """Report any error of a store's library, whose classes differ, with its place."""
    try:
        yield
    except OriginUnavailable:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0][:200] if str(error) else ""
        raise OriginUnavailable(f"{place} cannot be read: {type(error).__name__} {reason}".strip()) from error
