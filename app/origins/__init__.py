"""Places whose files can be kept as a source: folders, git repositories, and stores that fsspec reaches."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.origins.folder import Folder
from app.origins.git import GitRepository
from app.origins.origin import Exclusions, Origin
from app.origins.remote import RemoteStore

GIT_FORMS = ("git+", "git@", "ssh://", "git://")


def choose_origin(named: str, ref: str | None = None, exclude: Sequence[str] = ()) -> Origin:
    """The origin with this path or URL. It is a git repository if a `ref` is given, if it starts with `git+`, `git@`,
    `ssh://` or `git://`, or if it ends in `.git`; another URL is one of fsspec, and another path a folder."""
    exclusions = Exclusions(tuple(exclude))
    if ref is not None or named.startswith(GIT_FORMS) or named.rstrip("/").endswith(".git"):
        return GitRepository(named.removeprefix("git+"), ref, exclusions)
    if named.startswith("file://"):
        return Folder(Path(unquote(urlsplit(named).path)), exclusions)
    if "://" in named:
        return RemoteStore(named, exclusions)
    return Folder(Path(named).expanduser(), exclusions)
