"""The wheels of the service and of its client: enough to serve from an empty folder, without the repository."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from docs.version import read_version
from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow
BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"
LOADED = re.compile(r"""(?:src|href)=["']([^"'#]+\.(?:js|css|svg|png|ico)[^"']*)["']""")


def build(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """Build a `wheel` or an `sdist` of the tree at `source` into the folder."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{kind}", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, slots=True)
class Installation:
    """An environment with the wheels, and an empty folder to work in."""

    command: Path
    folder: Path

    def run(self, *arguments: str) -> str:
        """Run `knowledge` there, with the embedded Postgres."""
        return run(self.command, *arguments, folder=self.folder)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of the service and of its client, each built from its source distribution, as an index receives both."""
    folder, made = tmp_path_factory.mktemp("dist"), []
    for tree in (ROOT, ROOT / "clients/python"):
        with tarfile.open(build("sdist", folder, tree)) as archive:
            archive.extractall(folder / tree.name, filter="data")
        (source,) = (folder / tree.name).iterdir()
        made.append(build("wheel", folder, source))
    return made


@pytest.fixture(scope="module")
def installation(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment with the wheels and what they depend on, in the versions and with the hashes of the lock."""
    place = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", place / "env", folder=place)
    uv, python = Path(sys.executable).with_name("uv"), place / "env/bin/python"
    install = (uv, "pip", "install", "--quiet", "--python", python, "--constraint", ROOT / "requirements.lock")
    subprocess.run([*install, *wheels], check=True, timeout=600)  # with this environment's settings of the index
    folder = place / "empty"
    folder.mkdir()
    return Installation(place / "env/bin/knowledge", folder)


@contextlib.contextmanager
def serving(installation: Installation) -> Iterator[httpx.Client]:
    """`knowledge serve` in the empty folder."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "HOME": str(installation.folder), "KB_DRAIN_SECONDS": "0"}
    log = installation.folder.parent / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [installation.command, "serve", "--port", str(port)],
            cwd=installation.folder,
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
            _wait(client, process, log)
            yield client
    finally:
        process.terminate()
        assert process.wait(60) == 0


def _wait(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(httpx.TransportError):
            if client.get("/readyz").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def test_installed_wheel_is_the_package_that_runs(installation: Installation) -> None:
    python = installation.command.parent / "python"
    where = run(python, "-c", "import app; print(app.__file__)", folder=installation.folder).strip()
    assert Path(where).is_relative_to(installation.command.parents[1])
    assert (Path(where).parent / "py.typed").is_file()
    assert installation.run("--version").split()[-1] == read_version()


def test_wheels_serve_ingest_and_search_from_an_empty_folder(installation: Installation) -> None:
    assert list(installation.folder.iterdir()) == []
    with serving(installation) as client:
        installation.run("tenant", "create", "acme")
        token = installation.run("token", "--tenant", "acme", "--role", "creator").strip()
        client.headers["Authorization"] = f"Bearer {token}"
        written = client.post("/knowledge/entries", json={"content": "The quay has nine berths."})
        assert written.status_code == 201, written.text
        found = client.post("/knowledge/search", json={"query": "how many ships fit at the quay"}).json()
        assert [hit["id"] for hit in found["results"]] == [written.json()["id"]]
        assert found["metadata"]["search_modes_used"] == ["semantic", "keyword"]
        (installation.folder / "berths.md").write_text("# Tugs\n\nTwo tugs pull large ships into the dock.\n")
        assert "1 indexed" in installation.run("ingest", "berths.md", "--tenant", "acme")
        assert "Two tugs" in installation.run("search", "who pulls ships", "--tenant", "acme")
        for page in ("/docs", "/console"):
            shown = client.get(page, follow_redirects=True)
            assert shown.status_code == 200, page
            loaded = LOADED.findall(shown.text)
            assert loaded, page
            for path in loaded:
                assert not path.startswith(("http:", "https:", "//")), path
                assert client.get(urljoin(str(shown.url), path)).status_code == 200, path
        assert "ok" in installation.run("doctor")
