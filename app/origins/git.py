"""Git repositories, local or by URL, read with the executable `git`, which has the user's credentials."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.origins.origin import Exclusions, Listing, OriginFile, OriginUnavailable, check_path, hide_login

SECONDS = 3_600
"""Longest time of a command, which may fetch a large repository."""
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
POINTER = b"version https://git-lfs.github.com/spec/"
"""The beginning of a file whose content is in Git LFS."""
POINTER_BYTES = 1024
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_COUNT": "3",
    # A commit that no branch or tag names can be fetched from a local repository, too.
    "GIT_CONFIG_KEY_0": "uploadpack.allowAnySHA1InWant",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_KEY_1": "fetch.fsckObjects",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "core.hooksPath",
    "GIT_CONFIG_VALUE_2": os.devnull,
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository at a branch, a tag or a commit; `ref` None is its default branch."""

    url: str
    ref: str | None
    exclusions: Exclusions

    @property
    def description(self) -> str:
        """The address without user and password, and the branch, tag or commit."""
        shown = hide_login(self.url)
        return f"{shown} {self.ref}" if self.ref else shown

    @contextlib.contextmanager
    def open(self) -> Iterator[_Fetched]:
        """Fetch the commit into a temporary folder. Raises OriginUnavailable."""
        if self.url.startswith("-") or (self.ref or "").startswith("-"):
            raise OriginUnavailable("an address or a branch must not begin with -")
        program = shutil.which("git")
        if program is None:
            raise OriginUnavailable("the program git is not installed")
        with tempfile.TemporaryDirectory(prefix="knowledge-git-") as folder:
            fetched = _Fetched(program, folder, self.exclusions)
            try:
                fetched.run("init", "--quiet", "--bare", ".")
                fetched.fetch(self.url, self.ref)
                yield fetched
            finally:
                fetched.close()


@dataclass(slots=True)
class _Fetched:
    """A bare repository with one commit."""

    program: str
    folder: str
    exclusions: Exclusions
    commit: str = ""
    _reader: subprocess.Popen[bytes] | None = field(default=None)

    def fetch(self, url: str, ref: str | None) -> None:
        """Fetch the commit that a branch, a tag or a commit id names. Raises OriginUnavailable."""
        url = os.path.abspath(url) if os.path.exists(url) else url
        wanted = ref or "HEAD"
        try:
            self.run("fetch", "--quiet", "--depth=1", "--no-tags", "--", url, wanted)
            found = "FETCH_HEAD"
        except OriginUnavailable:
            if ref is None:
                raise
            # A short id, or a server that does not offer single commits.
            self.run("fetch", "--quiet", "--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            found = ref
        try:
            self.commit = self.run("rev-parse", "--verify", f"{found}^{{commit}}").decode().strip()
        except OriginUnavailable:
            self.commit = ""
        if not COMMIT.fullmatch(self.commit):
            raise OriginUnavailable(f"{wanted} is not a branch, tag or commit of the repository")

    def list_files(self) -> Listing:
        """All files of the commit; their digests are the ids of their blobs. Raises OriginUnavailable."""
        files: list[OriginFile] = []
        skipped: list[tuple[str, str]] = []
        listed = self.run("ls-tree", "-r", "-z", "--long", "--full-tree", self.commit)
        for line in listed.split(b"\0")[:-1]:
            facts, _, raw = line.partition(b"\t")
            mode, kind, blob, size = facts.decode().split()
            path = os.fsdecode(raw)
            reason = self.exclusions.refuse(path)
            if kind != "blob":
                reason = "a submodule"
            elif mode == "120000":
                reason = "a link"
            if reason is None:
                file = OriginFile(check_path(path), f"git:{blob}", int(size))
                if int(size) < POINTER_BYTES and self.read(file, POINTER_BYTES).startswith(POINTER):
                    reason = "its content is in Git LFS"
                else:
                    files.append(file)
            if reason is not None:
                skipped.append((raw.decode("utf-8", "replace"), reason))
        return Listing(files, skipped)

    def read(self, file: OriginFile, most: int) -> bytes:
        """The bytes of a file. Raises OriginUnavailable."""
        if self._reader is None:
            self._reader = subprocess.Popen(  # noqa: S603  # no shell
                [self.program, "cat-file", "--batch"],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        stdin, stdout = self._reader.stdin, self._reader.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(file.digest.removeprefix("git:").encode() + b"\n")
            stdin.flush()
            head = stdout.readline().split()
            size = int(head[2])
            data = stdout.read(size + 1)[:-1]
        except (OSError, IndexError, ValueError) as error:
            raise OriginUnavailable(f"git cannot read {file.path}") from error
        if len(data) != size:
            raise OriginUnavailable(f"git cannot read {file.path}")
        return data

    def run(self, *arguments: str) -> bytes:
        """Run a command of git in the folder; returns its output. Raises OriginUnavailable."""
        try:
            done = subprocess.run(  # noqa: S603  # no shell; addresses follow --
                [self.program, *arguments],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise OriginUnavailable(f"git {arguments[0]}: {_find_reason(error.stderr)}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OriginUnavailable(f"git {arguments[0]}: {type(error).__name__}") from error
        return done.stdout

    def close(self) -> None:
        """End the process that reads files."""
        if self._reader is not None:
            self._reader.kill()
            self._reader.communicate()


def _environment() -> Mapping[str, str]:
    """The user's environment, without variables that point git to another repository."""
    own: Sequence[str] = [name for name in os.environ if not name.startswith("GIT_") or name == "GIT_SSH_COMMAND"]
    return {name: os.environ[name] for name in own} | ENVIRONMENT


def _find_reason(errors: bytes) -> str:
    """The first line that git calls fatal, or else the last; advice may follow it."""
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()] or ["failed"]
    reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
    return hide_login(reason.removeprefix("fatal: "))
