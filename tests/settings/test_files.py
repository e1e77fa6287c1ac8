"""Where settings are read from: the environment, and a file."""

import os
from pathlib import Path

import pytest

from app.errors import ConfigurationError
from app.settings import Settings, load_settings, variable_names


def test_the_env_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# ports\nKB_PORT=9000  # mine\nKB_HOST='0.0.0.0'\nLOG_LEVEL=\nOTHER=1\n", encoding="utf-8")
    settings = load_settings({"KB_PORT": "9100"}, env_file=file)
    assert settings.server.port == 9100
    assert settings.server.host == "0.0.0.0"  # noqa: S104  # only compared
    assert settings.logging.level == "info"


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("KB_PORT=9000", 9000),
        ("\ufeffKB_PORT=9000\n", 9000),
        ("  KB_PORT = 9000  \n", 9000),
        ("export KB_PORT=9000\n", 9000),
        ('KB_PORT="9000"\r\nKB_HOST=h\r\n', 9000),
        ("KB_PORT=' 9000 ' # mine\n", 9000),
        ("# KB_PORT=9001\nthis is not a variable\nKB_PORT=9000\n", 9000),
        ("KB_PORT=9001\nKB_PORT=9000\n", 9000),
        ("KB_PORT=x\nKB_PORT=9000\n", 9000),
        ("KB_PORT=9000\nKB_PORT=\n", 8000),
        ("KB_PORT=9000\nKB_PORT\n", 8000),
        ("KB_PORT: 9000\nkb_port=9000\nport=9000\n", 8000),
    ],
)
def test_the_forms_of_a_line_are_read(tmp_path: Path, text: str, port: int) -> None:
    file = tmp_path / ".env"
    file.write_text(text, encoding="utf-8", newline="")
    assert load_settings({}, env_file=file).server.port == port


@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_variable_of_the_environment_hides_that_of_the_file(tmp_path: Path, blank: str) -> None:
    file = write(tmp_path, {"KB_PORT": "9000", "KB_HOST": "h"})
    server = load_settings({"KB_PORT": blank}, env_file=file).server
    assert (server.port, server.host) == (8000, "h")
    assert "port" not in server.model_fields_set


def test_a_missing_env_file_is_not_an_error(tmp_path: Path) -> None:
    assert load_settings({}, env_file=tmp_path / "none") == Settings()


def test_a_binary_env_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_bytes(b"KB_PORT=\xff\xfe\n")
    with pytest.raises(ConfigurationError, match=r"settings\.env: must be a readable UTF-8 text file"):
        load_settings({}, env_file=file)


def test_variables_in_a_file_are_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "leaked")
    file = tmp_path / ".env"
    file.write_text('OTHER=x\nJWT_ISSUER="http://elsewhere/${AWS_SECRET_ACCESS_KEY}$OTHER${OTHER}"\n')
    settings = load_settings({}, env_file=file)
    assert settings.jwt.issuer == "http://elsewhere/${AWS_SECRET_ACCESS_KEY}$OTHER${OTHER}"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / ".env"
    file.touch()
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=r"\.env: can be changed by other users.*chmod go-w"):
        load_settings({}, env_file=file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file, link = tmp_path / "theirs", tmp_path / ".env"
    file.touch(mode=0o644)
    os.chown(file, 12345, 0)
    link.symlink_to(file)
    for path in (file, link):
        with pytest.raises(ConfigurationError, match="is owned by another user"):
            load_settings({}, env_file=path)


def test_a_pipe_in_the_place_of_a_file_does_not_hang_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env", 0o600)
    with pytest.raises(ConfigurationError, match="must be a readable UTF-8 text file"):
        load_settings({}, env_file=tmp_path / ".env")


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# comment\n" * 30_000)
    with pytest.raises(ConfigurationError, match="must have at most 262144 bytes"):
        load_settings({}, env_file=file)


OPENAI = {"EMBEDDING_PROVIDER": "OpenAI "}
NEXT = {"EMBEDDING_NEXT_PROVIDER": "openai", "EMBEDDING_NEXT_MODEL": "m", "EMBEDDING_NEXT_DIMENSIONS": "8"}
KEY, ADDRESS = {"OPENAI_API_KEY": "k"}, {"OPENAI_BASE_URL": "http://elsewhere"}
NEXT_KEY, NEXT_ADDRESS = {"EMBEDDING_NEXT_API_KEY": "k"}, {"EMBEDDING_NEXT_BASE_URL": "http://elsewhere"}
BARE = {"DATABASE_URL": "postgresql://kb@elsewhere/kb", "JWT_SECRET": "s" * 32}


@pytest.mark.parametrize(
    ("file", "environment", "names"),
    [
        ({**OPENAI, **ADDRESS}, KEY, "OPENAI_API_KEY and OPENAI_BASE_URL"),
        ({**OPENAI, **KEY}, ADDRESS, "OPENAI_API_KEY and OPENAI_BASE_URL"),
        (ADDRESS, {**KEY, **OPENAI}, "OPENAI_API_KEY and OPENAI_BASE_URL"),
        (
            {"EMBEDDING_PROVIDER": "gemini", "GEMINI_BASE_URL": "http://elsewhere"},
            {"GEMINI_API_KEY": "k"},
            "GEMINI_API_KEY and GEMINI_BASE_URL",
        ),
        ({**NEXT, **ADDRESS}, KEY, "OPENAI_API_KEY and OPENAI_BASE_URL"),
        ({**NEXT, **ADDRESS}, NEXT_KEY, "EMBEDDING_NEXT_API_KEY and OPENAI_BASE_URL"),
        ({**NEXT, **NEXT_ADDRESS}, NEXT_KEY, "EMBEDDING_NEXT_API_KEY and EMBEDDING_NEXT_BASE_URL"),
        (BARE, {"PGPASSWORD": "p"}, "PGPASSWORD and DATABASE_URL"),
        ({"DATABASE_ADMIN_URL": BARE["DATABASE_URL"]}, {"PGPASSFILE": "p"}, "PGPASSFILE and DATABASE_ADMIN_URL"),
    ],
)
def test_a_key_and_its_address_from_two_sources_are_refused(
    tmp_path: Path, file: dict[str, str], environment: dict[str, str], names: str
) -> None:
    path = write(tmp_path, file)
    with pytest.raises(ConfigurationError, match=f"{names}: must come from one source"):
        load_settings(environment, env_file=path)
    assert load_settings({**environment, **file}, identity_required=False)


@pytest.mark.parametrize(
    ("file", "environment"),
    [
        ({**OPENAI, **KEY, **ADDRESS}, {}),
        ({**OPENAI, **ADDRESS}, {"OPENAI_API_KEY": ""}),
        ({**OPENAI, **KEY, **ADDRESS}, {**KEY, **ADDRESS}),
        (OPENAI, KEY),
        # A key that is not used, which many have in their environment, goes nowhere.
        (ADDRESS, KEY),
        ({**BARE, "DATABASE_URL": "postgresql://kb:pw@elsewhere/kb"}, {"PGPASSWORD": "p"}),
    ],
)
def test_a_key_without_an_address_of_another_source_is_accepted(
    tmp_path: Path, file: dict[str, str], environment: dict[str, str]
) -> None:
    assert load_settings(environment, env_file=write(tmp_path, file))


def write(folder: Path, variables: dict[str, str]) -> Path:
    path = folder / ".env"
    path.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return path


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
        if default in (None, ()):
            assert values[name] == ""
        elif isinstance(default, bool):
            assert values[name] == ("on" if default else "off")
        else:
            assert values[name] == (f"{default:g}" if isinstance(default, float) else str(default))
