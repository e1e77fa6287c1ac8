"""The settings: every variable, what is refused, and that no text shows a secret."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.errors import ConfigurationError
from app.settings import ServerSettings, Settings, load_settings, variable_names
from tests.fixtures.values import read_values
from tests.settings.environment import SECRET, SERVER, load

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


READ: dict[str, tuple[str, object]] = {
    "DATABASE_URL": (SERVER["DATABASE_URL"], "postgresql://kb:pw@db.example:5432/kb"),
    "DATABASE_ADMIN_URL": ("postgres://admin:pw@db.example/kb", "postgresql://admin:pw@db.example/kb"),
    "DATABASE_DIRECT_URL": ("postgres://kb:pw@node.example/kb", "postgresql://kb:pw@node.example/kb"),
    "DATABASE_REPLICA_URLS": (
        "postgres://kb@b1,b2:5433/kb, postgresql://kb@c/kb",
        ("postgresql://kb@b1,b2:5433/kb", "postgresql://kb@c/kb"),
    ),
    "KB_REPLICA_STALENESS": ("0.5", 0.5),
    "KB_DATA_DIR": ("/srv/kb data", Path("/srv/kb data")),
    "DATABASE_PREPARED_STATEMENTS": ("off", False),
    "KB_DATABASE_POOL_SIZE": ("3", 3),
    "KB_DATABASE_TIMEOUT": ("2.5", 2.5),
    "KB_DATABASE_STATEMENT_TIMEOUT": ("7", 7.0),
    "EMBEDDING_PROVIDER": ("OpenAI", "openai"),
    "EMBEDDING_MODEL": ("text-embedding-3-large", "text-embedding-3-large"),
    "EMBEDDING_DIMENSIONS": ("256", 256),
    "KB_EMBEDDING_QUERY_TIMEOUT": ("1", 1.0),
    "OPENAI_API_KEY": ("key-1", "key-1"),
    "OPENAI_BASE_URL": ("http://10.0.0.7:8080/v1", "http://10.0.0.7:8080/v1"),
    "GEMINI_API_KEY": ("key-2", "key-2"),
    "GEMINI_BASE_URL": ("https://gemini.example", "https://gemini.example"),
    "EMBEDDING_NEXT_PROVIDER": ("Gemini", "gemini"),
    "EMBEDDING_NEXT_MODEL": ("gemini-embedding-001", "gemini-embedding-001"),
    "EMBEDDING_NEXT_DIMENSIONS": ("1536", 1536),
    "EMBEDDING_NEXT_API_KEY": ("key-3", "key-3"),
    "EMBEDDING_NEXT_BASE_URL": ("https://next.example", "https://next.example"),
    "JWT_SECRET": (SECRET, SECRET),
    "JWT_AUDIENCE": ("kb", "kb"),
    "JWT_ISSUER": ("https://issuer.example/", "https://issuer.example/"),
    "JWT_GROUPS_CLAIM": ("realm.groups", "realm.groups"),
    "KB_ENCRYPTION_KEY": (KEY, KEY),
    "KB_PUBLIC_URL": ("https://kb.example.com", "https://kb.example.com"),
    "KB_OIDC_ISSUER": ("https://login.example.com/realms/kb", "https://login.example.com/realms/kb"),
    "KB_OIDC_CLIENT_ID": ("console", "console"),
    "KB_OIDC_CLIENT_SECRET": ("key-4", "key-4"),
    "KB_OIDC_NAME": ("Example ID", "Example ID"),
    "KB_OIDC_SCOPES": ("openid  profile", "openid profile"),
    "KB_OIDC_TENANT_CLAIM": ("tenant", "tenant"),
    "KB_OIDC_ROLES_CLAIM": ("realm_access.roles", "realm_access.roles"),
    "KB_OIDC_SESSION_HOURS": ("0.5", 0.5),
    "KB_OIDC_ORIGINS": ("https://a.example, https://b.example", ("https://a.example", "https://b.example")),
    "KB_SEARCH_DEFAULT_LIMIT": ("20", 20),
    "KB_SEARCH_MAX_LIMIT": ("100", 100),
    "KB_RRF_SEMANTIC_WEIGHT": ("0.1", 0.1),
    "KB_RRF_KEYWORD_WEIGHT": ("0.9", 0.9),
    "KB_SEMANTIC_SIMILARITY_THRESHOLD": ("0", 0.0),
    "KB_EXACT_SEARCH_LIMIT": ("500", 500),
    "KB_MAX_UPLOAD_BYTES": ("1000", 1000),
    "KB_WORKER": ("off", False),
    "KB_FILES_AT_ONCE": ("4", 4),
    "KB_CHUNK_OVERLAP": ("40", 40),
    "KB_OCR_SECONDS": ("600", 600.0),
    "KB_SOURCE_MAX_DELETIONS": ("0.5", 0.5),
    "KB_HOST": ("::1", "::1"),
    "KB_PORT": ("9000", 9000),
    "KB_METRICS_PORT": ("9001", 9001),
    "KB_CORS_ORIGINS": (
        "https://app.example.com, http://localhost:3000",
        ("https://app.example.com", "http://localhost:3000"),
    ),
    "KB_WEBHOOK_PORTS": ("443, 9000-9002", "443, 9000-9002"),
    "LOG_LEVEL": ("WARNING", "warning"),
    "KB_LOG_FORMAT": ("json", "json"),
}
"""Variables, each with a text and the value that it stands for."""


def reveal(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(reveal, value))
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def by_variable(settings: Settings) -> dict[str, object]:
    return {
        str(field.validation_alias): reveal(getattr(group, name))
        for _, group in settings
        for name, field in type(group).model_fields.items()
    }


def test_settings_are_read_from_their_variables() -> None:
    settings = load(**{name: text for name, (text, _) in READ.items()})
    assert by_variable(settings) == by_variable(Settings()) | {name: value for name, (_, value) in READ.items()}
    assert not settings.database.embedded


def test_metrics_do_not_listen_where_the_service_does() -> None:
    assert load(KB_HOST="0.0.0.0").server.metrics_host == "127.0.0.1"  # noqa: S104  # only compared


def test_a_data_folder_in_a_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert load(KB_DATA_DIR="~/kb").database.data_dir == Path("/home/ada/kb")


@pytest.mark.parametrize(
    "env",
    [
        {"KB_RRF_SEMANTIC_WEIGHT": "0.7000000001"},
        {"KB_RRF_SEMANTIC_WEIGHT": "1", "KB_RRF_KEYWORD_WEIGHT": "0"},
        {"EMBEDDING_DIMENSIONS": "384"},
        {"EMBEDDING_PROVIDER": "openai", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        {"EMBEDDING_PROVIDER": "mock", "EMBEDDING_DIMENSIONS": "768"},
        {"KB_SEARCH_MAX_LIMIT": "10"},
        {"JWT_JWKS_URL": "https://issuer.example/keys"},
        {"DATABASE_URL": "postgresql:///kb?host=/run/postgresql", "JWT_SECRET": SECRET},
        {"DATABASE_URL": "postgresql://u:p@[::1]:5432/kb", "JWT_SECRET": "x" * 32},
        {"DATABASE_URL": "postgresql://u:p@a,[::1]:5432,b:1/kb?target_session_attrs=read-write", "JWT_SECRET": SECRET},
    ],
)
def test_settings_at_their_bounds_are_accepted(env: dict[str, str]) -> None:
    assert load(**env) != Settings()


def test_a_command_that_verifies_no_tokens_needs_no_jwt_setting() -> None:
    env = {"DATABASE_URL": SERVER["DATABASE_URL"]}
    assert not load_settings(env, env_file=None, identity_required=False).database.embedded


def test_every_database_scheme_is_normalised_to_one() -> None:
    for scheme in ("postgresql", "postgres", "postgresql+asyncpg"):
        url = load(DATABASE_URL=f"{scheme}://u:p%40@h/d", JWT_SECRET=SECRET).database.url
        assert url is not None
        assert url.get_secret_value() == "postgresql://u:p%40@h/d"


def test_an_empty_or_blank_value_means_unset() -> None:
    assert load(**dict.fromkeys(variable_names(), "")) == Settings()
    assert load(**dict.fromkeys(variable_names(), " \t")) == Settings()


def test_unknown_variables_are_ignored() -> None:
    assert load(PATH="/bin", KB_OTHER="1") == Settings()


def test_the_names_of_fields_are_not_variables() -> None:
    fields = [name for _, group in Settings() for name in type(group).model_fields]
    assert "url" in fields
    others = {*fields, *map(str.upper, fields), *map(str.lower, variable_names())} - set(variable_names())
    assert load(**dict.fromkeys(others, "x")) == Settings()


def test_settings_that_python_code_creates_do_not_read_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    defaults = repr(Settings())
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("KB_PORT=9000\n")
    for name in variable_names():
        monkeypatch.setenv(name, "9")
    assert repr(Settings()) == defaults
    assert repr(Settings(server=ServerSettings(port=8000))) == defaults
    assert load() == Settings()


def test_no_value_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDANTIC_SETTINGS_DEBUG", "1")
    caplog.set_level("DEBUG")
    load(JWT_SECRET=SECRET)
    assert SECRET not in caplog.text


def test_secrets_do_not_show_in_any_text_of_the_settings() -> None:
    settings = load(**SERVER, OPENAI_API_KEY="key-1", GEMINI_API_KEY="key-2", DATABASE_ADMIN_URL="postgres://a:pw2@h/d")
    for text in (repr(settings), str(settings), repr(settings.model_dump()), settings.model_dump_json()):
        for secret in (SECRET, "pw@", "pw2", "key-1", "key-2"):
            assert secret not in text


REFUSED = read_values(Path(__file__).with_name("values.yaml"))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_a_wrong_setting_is_named_in_one_line_without_its_value(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(**{name: value})
    text = str(caught.value)
    assert text.startswith(f"{name}: must be ")
    assert "\n" not in text
    assert "hidden" not in text
    assert caught.value.__context__ is None


def test_all_wrong_settings_are_named_together() -> None:
    with pytest.raises(ConfigurationError, match=r"^KB_PORT: must be .*; LOG_LEVEL: must be [^;]*$"):
        load(KB_PORT="x", LOG_LEVEL="loud")


@pytest.mark.parametrize(
    ("env", "start"),
    [
        ({"KB_RRF_SEMANTIC_WEIGHT": "0.6"}, "KB_RRF_SEMANTIC_WEIGHT and KB_RRF_KEYWORD_WEIGHT: "),
        ({"KB_RRF_SEMANTIC_WEIGHT": "0.700000002"}, "KB_RRF_SEMANTIC_WEIGHT and KB_RRF_KEYWORD_WEIGHT: "),
        ({"KB_SEARCH_MAX_LIMIT": "9"}, "KB_SEARCH_DEFAULT_LIMIT: "),
        ({"KB_METRICS_PORT": "8000"}, "KB_METRICS_PORT: "),
        ({"EMBEDDING_DIMENSIONS": "768"}, "EMBEDDING_DIMENSIONS: "),
        ({"EMBEDDING_PROVIDER": "openai"}, "OPENAI_API_KEY: "),
        ({"EMBEDDING_PROVIDER": "gemini"}, "GEMINI_API_KEY: "),
        ({"JWT_SECRET": SECRET, "JWT_JWKS_URL": "https://i.example/k"}, "JWT_SECRET and JWT_JWKS_URL: "),
        ({"JWT_SECRETS": f"a:{SECRET}", "JWT_JWKS_URL": "https://i.example/k"}, "JWT_SECRETS and JWT_JWKS_URL: "),
        ({"DATABASE_URL": SERVER["DATABASE_URL"]}, "JWT_SECRET or JWT_JWKS_URL: "),
    ],
)
def test_contradictory_settings_are_named(env: dict[str, str], start: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(**env)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"KB_OIDC_CLIENT_ID": "hidden"}, "KB_OIDC_CLIENT_ID: has no effect without KB_OIDC_ISSUER"),
        ({"KB_OIDC_CLIENT_SECRET": "hidden"}, "KB_OIDC_CLIENT_SECRET: has no effect without"),
        ({"KB_OIDC_ORIGINS": "https://hidden.example"}, "KB_OIDC_ORIGINS: has no effect without"),
        ({"KB_OIDC_ISSUER": "https://hidden.example"}, "KB_OIDC_CLIENT_ID: must be set with"),
        (
            {"KB_OIDC_ISSUER": "https://hidden.example", "KB_OIDC_CLIENT_ID": "hidden"},
            "KB_PUBLIC_URL: must be set with KB_OIDC_ISSUER",
        ),
        (
            {
                **SERVER,
                "KB_OIDC_ISSUER": "https://hidden.example",
                "KB_OIDC_CLIENT_ID": "hidden",
                "KB_PUBLIC_URL": "https://kb.example.com",
            },
            "KB_ENCRYPTION_KEY: must be set with KB_OIDC_ISSUER",
        ),
    ],
)
def test_a_sign_in_that_cannot_work_is_refused(env: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{reason}") as refusal:
        load(**env)
    assert "hidden" not in str(refusal.value)
    # A worker and a migration get the same settings and need none of these.
    load_settings(env, identity_required=False)


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"EMBEDDING_NEXT_MODEL": "x"}, "EMBEDDING_NEXT_MODEL: has no effect without EMBEDDING_NEXT_PROVIDER"),
        ({"EMBEDDING_NEXT_DIMENSIONS": "8"}, "EMBEDDING_NEXT_DIMENSIONS: has no effect"),
        ({"EMBEDDING_NEXT_API_KEY": "hidden"}, "EMBEDDING_NEXT_API_KEY: has no effect"),
        ({"EMBEDDING_NEXT_PROVIDER": "openai"}, "EMBEDDING_NEXT_API_KEY: must be set"),
        ({"EMBEDDING_NEXT_PROVIDER": "gemini", "OPENAI_API_KEY": "k"}, "EMBEDDING_NEXT_API_KEY: must be set"),
    ],
)
def test_a_second_model_that_cannot_be_served_is_refused(env: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{reason}") as refusal:
        load(**env)
    assert "hidden" not in str(refusal.value)


def test_a_second_model_may_use_the_key_of_its_provider() -> None:
    settings = load(EMBEDDING_NEXT_PROVIDER="openai", OPENAI_API_KEY="key")
    assert settings.next_embedding.provider == "openai"
