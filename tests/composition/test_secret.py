"""The secret that an embedded service generates and stores."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.auth.tokens import TokenVerifier
from app.composition.shared_secrets import FILE_NAME, ensure_secret
from app.embedded.data_folder import MARKER
from app.errors import ConfigurationError


def test_a_secret_is_generated_once_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "with space" / ".data"
    secret = ensure_secret(folder)
    assert ensure_secret(folder) == secret
    assert ensure_secret(tmp_path / "other") != secret
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
    assert sorted(os.listdir(folder)) == [MARKER, FILE_NAME]
    TokenVerifier(secret=secret)


def test_processes_that_start_together_get_the_same_secret(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from app.composition.shared_secrets import ensure_secret;"
        "print('ready', flush=True); sys.stdin.readline(); print(ensure_secret(Path(sys.argv[1])))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    secrets = {process.communicate(timeout=30)[0] for process in processes}
    assert secrets == {ensure_secret(tmp_path) + "\n"}
    assert sorted(os.listdir(tmp_path)) == [MARKER, FILE_NAME]


def test_a_readable_secret_is_closed_to_other_users(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    file.write_text("x" * 40 + "\n")
    file.chmod(0o644)
    assert ensure_secret(tmp_path) == "x" * 40
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff" * 64, b" " * 64])
def test_a_damaged_secret_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"^KB_DATA_DIR: .*{FILE_NAME} contains no usable secret"):
        ensure_secret(tmp_path)


def test_a_secret_that_cannot_be_stored_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"^KB_DATA_DIR: .* cannot be created or read: ") as caught:
        ensure_secret(tmp_path / "file")
    assert "\n" not in str(caught.value)


def test_a_link_in_place_of_the_secret_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("y" * 64)
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="cannot be created or read"):
        ensure_secret(tmp_path)
