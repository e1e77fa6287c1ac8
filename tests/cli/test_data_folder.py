"""A data folder that came with the current folder, for example with a cloned repository, is not used unasked."""

import shutil
from pathlib import Path

import pytest

from app.embedded.data_folder import MARKER, is_created_here
from tests.cli.conftest import CommandLine

DEFAULT = Path(".data")
SIGN = ("token", "--role", "platform_admin")
COMMANDS = (
    SIGN,
    ("serve",),
    ("worker",),
    ("migrate",),
    ("search", "x", "-t", "a"),
    ("ingest", ".", "-t", "a"),
    ("mcp", "-t", "a"),
    ("doctor",),
    ("tenant", "list"),
)


@pytest.fixture(autouse=True)
def state_folder(offline: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder, apart from the current folder."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def ship(folder: Path = DEFAULT) -> None:
    """A folder as a hostile repository contains it."""
    folder.mkdir()
    (folder / "jwt-secret").write_text("known to the author of the repository, and long enough")


def is_refused(command: CommandLine, *arguments: str) -> bool:
    result = command(*arguments)
    assert len(result.err.splitlines()) <= 1, result.err
    # The doctor prints what it finds.
    return result.status == 1 and "was not created here by you" in result.err + result.out


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_folder_that_came_with_the_current_folder_is_refused(
    offline: CommandLine, arguments: tuple[str, ...]
) -> None:
    ship()
    assert is_refused(offline, *arguments)
    assert [file.name for file in DEFAULT.iterdir()] == ["jwt-secret"]


def test_an_own_folder_is_used_again(offline: CommandLine) -> None:
    for _ in range(2):
        assert offline(*SIGN).status == 0
    assert is_created_here(DEFAULT)


def test_an_empty_folder_is_filled_and_becomes_the_users_own(offline: CommandLine) -> None:
    DEFAULT.mkdir()
    assert offline(*SIGN).status == 0
    assert offline(*SIGN).status == 0


def test_a_folder_that_the_environment_names_is_used_and_becomes_the_users_own(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship()
    monkeypatch.setenv("KB_DATA_DIR", str(DEFAULT.absolute()))
    assert offline(*SIGN).status == 0
    monkeypatch.delenv("KB_DATA_DIR")
    assert offline(*SIGN).status == 0


def test_a_folder_that_a_named_file_names_is_used(offline: CommandLine) -> None:
    ship()
    Path("mine.env").write_text("KB_DATA_DIR=.data\n")
    assert offline("--env-file", "mine.env", *SIGN).status == 0


def test_the_settings_file_of_the_current_folder_cannot_choose_the_folder(offline: CommandLine) -> None:
    ship(Path("elsewhere"))
    Path(".env").write_text("KB_DATA_DIR=elsewhere\n")
    assert is_refused(offline, "migrate")


def test_a_marker_of_another_folder_user_or_author_is_refused(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert offline(*SIGN).status == 0
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    shutil.copytree(DEFAULT, theirs / DEFAULT)
    monkeypatch.chdir(theirs)
    assert is_refused(offline, *SIGN), "a copy elsewhere"
    (DEFAULT / MARKER).write_text("0" * 64)
    assert is_refused(offline, *SIGN), "a forged marker"
    (DEFAULT / MARKER).write_bytes(b"\xff" * 64)
    assert is_refused(offline, *SIGN), "not text"
    monkeypatch.chdir(tmp_path / "here")
    assert offline(*SIGN).status == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert is_refused(offline, *SIGN), "another user"


def test_a_link_to_an_own_folder_is_refused(
    offline: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert offline(*SIGN).status == 0
    linking = tmp_path / "linking"
    linking.mkdir()
    monkeypatch.chdir(linking)
    DEFAULT.symlink_to(tmp_path / "here" / DEFAULT)
    assert is_refused(offline, *SIGN)


def test_without_a_place_for_the_key_a_new_folder_works_once_and_then_by_its_name(
    offline: CommandLine, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_folder.write_text("a file, not a folder")
    assert offline(*SIGN).status == 0
    assert is_refused(offline, *SIGN)
    monkeypatch.setenv("KB_DATA_DIR", str(DEFAULT.absolute()))
    assert offline(*SIGN).status == 0
