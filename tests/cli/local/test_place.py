"""Which service a command asks, and what happens when it gets no answer."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.local import place as places
from app.cli.local.client import NotAnswered, ask
from tests.cli.conftest import CommandLine, running
from tests.cli.local.running import current_place, read_settings, run_command, running_service

DEAD = 2**22 + 1
"""More than the largest process id of Linux."""


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A parent of the sockets' folder with a short path."""
    made = Path(tempfile.mkdtemp(prefix="kb-test-", dir="/tmp"))
    monkeypatch.setattr(places, "PARENT", str(made))
    yield made
    shutil.rmtree(made)


def ask_for_tenant(slug: str) -> object:
    return ask(read_settings(), "token", {"tenant": slug})


def test_the_service_listens_in_a_folder_of_its_user(knowledge: CommandLine, filled: str, parent: Path) -> None:
    with running_service():
        (folder,) = parent.iterdir()
        (path,) = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert ask_for_tenant(filled)
    assert list(folder.iterdir()) == []
    with pytest.raises(NotAnswered):
        ask_for_tenant(filled)


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
            ask_for_tenant(filled)


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
            ask_for_tenant(filled)
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
            ask_for_tenant(filled)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_not_used(knowledge: CommandLine, filled: str, parent: Path) -> None:
    folder = Path(current_place().folder)
    folder.mkdir(mode=0o700)
    os.chown(folder, 65_530, 65_530)
    with running_service():
        assert list(folder.iterdir()) == []
        with pytest.raises(NotAnswered):
            ask_for_tenant(filled)


def test_a_link_is_not_followed_to_the_folder(knowledge: CommandLine, parent: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    Path(current_place().folder).symlink_to(elsewhere)
    assert current_place().own_socket() is None


def test_a_request_needs_the_key(knowledge: CommandLine, filled: str, parent: Path) -> None:
    with running_service():
        (path,) = current_place().list_sockets()
        for request in (
            {"key": "0" * 64, "command": "token", "arguments": {"tenant": filled}},
            {"command": "token", "arguments": {"tenant": filled}},
            {"key": current_place().key, "command": "unknown", "arguments": {}},
            {"key": current_place().key, "command": "token", "arguments": {"unknown": 1}},
            ["nothing"],
        ):
            assert _send(path, json.dumps(request).encode() + b"\n") == b"\n"
        assert _send(path, b"\xff\n") == b"\n"
        assert _send(path, b"x" * (2 << 20) + b"\n") in (b"\n", b"")
        assert ask_for_tenant(filled)


def _send(path: str, request: bytes) -> bytes:
    received = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        try:
            connection.sendall(request)
            while piece := connection.recv(100):
                received += piece
        except ConnectionError:
            pass
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


def test_a_command_whose_service_stops_in_the_middle_opens_the_database(knowledge: CommandLine, filled: str) -> None:
    path = _leave_socket(os.getpid())
    path.unlink()

    async def stop_at_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\n")
        await reader.readline()
        writer.write(b'{"result": [')
        writer.close()

    async def run() -> bool:
        server = await asyncio.start_unix_server(stop_at_request, path)
        async with server:
            found = await asyncio.to_thread(run_command, "search", "mooring", "-t", filled)
        return found.opened and found.status == 0

    try:
        assert asyncio.run(run())
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_that_waits_for_the_answer(
    knowledge: CommandLine, filled: str, number: signal.Signals
) -> None:
    path = _leave_socket(os.getpid())
    path.unlink()
    with socket.socket(socket.AF_UNIX) as slow:
        slow.bind(str(path))
        slow.listen()
        slow.settimeout(60)
        try:
            with running("search", "mooring", "-t", filled) as command:
                connection, _ = slow.accept()
                with connection:
                    connection.sendall(b"\n")
                    assert b"mooring" in connection.recv(1 << 16)
                    command.send_signal(number)
                    _, err = command.communicate(timeout=60)
            assert (command.returncode, err) == (130, "error: interrupted\n")
        finally:
            path.unlink()


def _leave_socket(pid: int) -> Path:
    """A socket, as a service with this process id leaves it when it is killed."""
    own = current_place().own_socket()
    assert own is not None
    path = Path(own.replace(f"-{os.getpid()}.sock", f"-{pid}.sock"))
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    return path
