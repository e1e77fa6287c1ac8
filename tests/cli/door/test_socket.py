"""Which running service a command asks, and what happens when it gets no answer."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.cli import place as places
from app.cli.door import SocketWay
from app.cli.execution import Local
from knowledge_client.retries import Retries
from knowledge_client.transport import NotAnswered, Request
from tests.cli.conftest import CommandLine, running
from tests.cli.door.ways import run_served
from tests.cli.running import current_place, read_settings, run_command

POOR_SERVICE = Path(__file__).with_name("poor_service.py")
DEAD = 2**22 + 1
"""More than the largest process id of Linux."""


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A parent of the sockets' folder with a short path."""
    made = Path(tempfile.mkdtemp(prefix="kb-test-", dir="/tmp"))
    monkeypatch.setattr(places, "PARENT", str(made))
    yield made
    shutil.rmtree(made)


def ask(slug: str) -> int:
    """The status of the service's answer. Raises NotAnswered."""
    return SocketWay(Local(read_settings(), slug)).send(Request("GET", "/knowledge/entries"), {}).status_code


@contextmanager
def running_service() -> Iterator[None]:
    with run_served(read_settings()):
        yield


def test_the_service_listens_in_a_folder_of_its_user(knowledge: CommandLine, filled: str, parent: Path) -> None:
    with running_service():
        (folder,) = parent.iterdir()
        (path,) = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert ask(filled) == 200
    assert list(folder.iterdir()) == []
    with pytest.raises(NotAnswered):
        ask(filled)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KB_SEARCH_DEFAULT_LIMIT", "3"),
        ("EMBEDDING_DIMENSIONS", "32"),
        ("KB_LIMIT_ENTRIES", "7"),
        ("KB_RERANKER_URL", "http://127.0.0.1:1/rerank"),
        ("DATABASE_URL", "postgresql://kb_service:other@127.0.0.1/knowledge"),
        ("PGPASSWORD", "other"),
    ],
)
def test_a_command_with_other_settings_does_not_ask(
    knowledge: CommandLine, filled: str, parent: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with running_service():
        monkeypatch.setenv(name, value)
        with pytest.raises(NotAnswered):
            ask(filled)


def test_a_command_of_another_version_does_not_ask(
    knowledge: CommandLine, filled: str, parent: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "app"
    copy.mkdir()
    (copy / "main.py").write_text("")
    with running_service():
        monkeypatch.setattr(places, "_PACKAGE", str(copy))
        before = current_place()
        with pytest.raises(NotAnswered):
            ask(filled)
        (copy / "main.py").write_text("changed")
        assert current_place().name != before.name


def test_a_data_folder_is_told_from_another_at_the_same_path(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    monkeypatch.setenv("KB_DATA_DIR", str(data_dir))
    assert places.find_place(read_settings()) is None
    data_dir.mkdir()
    (data_dir / "kb_service-password").write_text("one")
    first = current_place()
    monkeypatch.setenv("KB_PORT", "9999")
    assert current_place() == first
    (data_dir / "kb_service-password").write_text("two")
    assert current_place().name != first.name
    (data_dir / "kb_service-password").write_text("one")
    data_dir.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", data_dir)
    assert current_place().name != first.name


def test_the_name_of_a_socket_does_not_show_the_key(knowledge: CommandLine) -> None:
    place = current_place()
    assert place.key[:8] not in place.name
    assert place.key not in repr(place)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_folder_that_others_can_enter_is_not_used(
    knowledge: CommandLine, filled: str, parent: Path, mode: int
) -> None:
    folder = Path(current_place().folder)
    folder.mkdir()
    folder.chmod(mode)
    with running_service():
        assert list(folder.iterdir()) == []
        with pytest.raises(NotAnswered):
            ask(filled)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_not_used(knowledge: CommandLine, filled: str, parent: Path) -> None:
    folder = Path(current_place().folder)
    folder.mkdir(mode=0o700)
    os.chown(folder, 65_530, 65_530)
    with running_service():
        assert list(folder.iterdir()) == []
        with pytest.raises(NotAnswered):
            ask(filled)


def test_a_link_is_not_followed_to_the_folder(knowledge: CommandLine, parent: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    Path(current_place().folder).symlink_to(elsewhere)
    assert current_place().own_socket() is None


def test_a_request_needs_the_key(knowledge: CommandLine, filled: str, parent: Path) -> None:
    with running_service():
        (path,) = current_place().list_sockets()
        right = f"Bearer {current_place().key}"
        for key in ("", "Bearer", f"Bearer {'0' * 64}", current_place().key, f"{right}x", right[:-1]):
            head = f"GET /knowledge/entries HTTP/1.1\r\nHost: x\r\nX-KB-Tenant: {filled}\r\nConnection: close\r\n"
            assert _send(path, f"{head}Authorization: {key}\r\n\r\n".encode()).startswith(b"HTTP/1.1 401 ")
        assert _send(path, b"\xff\n\n").startswith(b"HTTP/1.1 400 ")
        assert ask(filled) == 200


def _send(path: str, request: bytes) -> bytes:
    received = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(request)
        while piece := connection.recv(100):
            received += piece
    return received


@pytest.mark.slow
def test_a_command_works_next_to_the_socket_of_a_service_that_was_killed(knowledge: CommandLine, filled: str) -> None:
    path = _leave_socket(DEAD)
    try:
        found = run_command("search", "mooring", "-t", filled, "--mode", "keyword")
        assert (found.status, found.opened) == (0, True)
        with running_service():
            assert not path.exists()
            assert not run_command("search", "mooring", "-t", filled, "--mode", "keyword").opened
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.slow
def test_a_command_works_next_to_a_service_that_does_not_answer(knowledge: CommandLine, filled: str) -> None:
    path = _leave_socket(os.getpid())
    path.unlink()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        try:
            found = run_command("search", "mooring", "-t", filled, "--mode", "keyword")
            assert (found.status, found.opened) == (0, True)
        finally:
            path.unlink()


@contextmanager
def service_that(does: str, path: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A service in a process of its own; its next line is its port, if it has one."""
    arguments = [sys.executable, str(POOR_SERVICE), "" if path is None else str(path), does]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(knowledge: CommandLine) -> Iterator[Path]:
    """The path of a socket that a command asks."""
    made = _leave_socket(os.getpid())
    made.unlink()
    yield made
    made.unlink(missing_ok=True)


WRITES = (
    ("add", "The tug follows.", "--external-id", "tug-1"),
    ("edit", "01890000-0000-7000-8000-000000000000", "--title", "Pilot", "--if-version", "1"),
    ("delete", "01890000-0000-7000-8000-000000000000", "--yes"),
)
UNKNOWN = "so it is not known whether this was done: look with `knowledge get` or `knowledge list` before"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", WRITES, ids=lambda command: command[0])
def test_the_outcome_of_a_write_is_not_known_where_the_service_was_killed(
    knowledge: CommandLine, filled: str, path: Path, command: tuple[str, ...]
) -> None:
    with service_that("dies", path) as service:
        assert service.stdout is not None
        service.stdout.readline()
        outcome = run_command(*command, "-t", filled)
        assert (outcome.status, outcome.out, outcome.opened) == (1, "", False)
        assert outcome.err.startswith(f"error: the running service ended before it answered, {UNKNOWN}")


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command[0])
def test_the_outcome_of_a_write_is_not_known_where_the_service_elsewhere_was_killed(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("app.cli.door.RETRIES", Retries(attempts=2, first=0.0))
    with service_that("dies") as service:
        assert service.stdout is not None
        monkeypatch.setenv("KB_URL", f"http://127.0.0.1:{service.stdout.readline().strip()}")
        monkeypatch.setenv("KB_TOKEN", "token")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        outcome = offline(*command)
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.err.startswith("error: KB_URL: no answer from http://127.0.0.1:")
        assert UNKNOWN in outcome.err


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command[0])
def test_the_outcome_of_a_write_is_not_known_where_the_api_of_this_process_ended(
    knowledge: CommandLine, filled: str, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    async def end(*_: object) -> None:
        """End without an answer."""

    monkeypatch.setattr("app.api.application.create_private_api", lambda *_, **__: end)
    outcome = knowledge(*command, "-t", filled)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith(f"error: the running service ended before it answered, {UNKNOWN}")


def test_a_command_that_reads_opens_the_database_where_the_service_was_killed(
    knowledge: CommandLine, filled: str, path: Path
) -> None:
    with service_that("dies", path) as service:
        assert service.stdout is not None
        service.stdout.readline()
        found = run_command("search", "mooring", "-t", filled)
        assert (found.status, found.opened) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_that_waits_for_the_answer(
    knowledge: CommandLine, filled: str, path: Path, number: signal.Signals
) -> None:
    with service_that("waits", path) as service, running("search", "mooring", "-t", filled) as command:
        assert service.stdout is not None
        service.stdout.readline()
        assert service.stdout.readline() == "asked\n"
        command.send_signal(number)
        _, err = command.communicate(timeout=60)
        assert (command.returncode, err) == (130, "error: interrupted\n")


def _leave_socket(pid: int) -> Path:
    """A socket, as a service with this process id leaves it when it is killed."""
    own = current_place().own_socket()
    assert own is not None
    path = Path(own.replace(f"-{os.getpid()}.sock", f"-{pid}.sock"))
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    return path
