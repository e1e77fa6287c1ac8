from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.embedded import read_or_create_secret


def test_secret_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "jwt.secret"
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda _: read_or_create_secret(path), range(32)))
    assert len(secrets) == 1
    assert len(secrets.pop()) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["jwt.secret"]


def test_empty_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jwt.secret").touch()
    with pytest.raises(ValueError, match=r"jwt\.secret is empty"):
        read_or_create_secret(tmp_path / "jwt.secret")
