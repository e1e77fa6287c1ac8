"""Where settings are read from: the environment, and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import ConfigurationError
from app.settings import Settings, load_settings, variable_names


def test_the_env_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "# ports\nKB_PORT=9000  # mine\nKB_HOST='0.0.0.0'\nLOG_LEVEL=\nOTHER=1\n", encoding="utf-8"
    )
    settings = load_settings({"KB_PORT": "9100"}, env_file=file)
    assert settings.server.port == 9100
    assert settings.server.host == "0.0.0.0"  # noqa: S104  # only compared
    assert settings.logging.level == "info"


def test_a_missing_env_file_is_not_an_error(tmp_path: Path) -> None:
    assert load_settings({}, env_file=tmp_path / "none") == Settings()


def test_a_binary_env_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_bytes(b"KB_PORT=\xff\xfe\n")
    with pytest.raises(ConfigurationError, match=r"settings\.env: must be a readable UTF-8 text file"):
        load_settings({}, env_file=file)


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_PORT", "9200")
    assert load_settings(env_file=None, identity_required=False).server.port == 9200


def test_the_example_file_lists_every_setting_with_its_default() -> None:
    example = Path(__file__).parents[2] / ".env.example"
    assert load_settings({}, env_file=example) == Settings()
    lines = example.read_text(encoding="utf-8").splitlines()
    listed = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]
    assert sorted(listed) == sorted(variable_names())
    values = {k: v for k, _, v in (line.partition("=") for line in lines if not line.startswith("#"))}
    defaults = {
        str(field.validation_alias): field.default
        for group in Settings().__dict__.values()
        for field in type(group).model_fields.values()
    }
    for name, default in defaults.items():
        if default is None:
            assert values[name] == ""
        elif isinstance(default, bool):
            assert values[name] == ("on" if default else "off")
        else:
            assert values[name] == (f"{default:g}" if isinstance(default, float) else str(default))
