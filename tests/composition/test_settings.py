"""The settings: defaults, every bound, contradictions, and that no error or text shows a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import ConfigurationError
from app.settings import Settings, load_settings, variable_names

SECRET = "s3cret-" * 5
SERVER = {"DATABASE_URL": "postgresql://kb:pw@db.example:5432/kb", "JWT_SECRET": SECRET}


def load(**env: str) -> Settings:
    return load_settings(env, env_file=None)


def test_settings_have_the_documented_defaults() -> None:
    settings = load()
    assert settings == Settings()
    assert settings.database.embedded
    assert settings.database.data_dir == Path(".data")
    assert settings.database.prepared_statements
    assert (settings.server.host, settings.server.port, settings.server.metrics_port) == (
        "127.0.0.1",
        8000,
        None,
    )
    assert (settings.search.default_limit, settings.search.max_limit) == (10, 50)
    assert (settings.search.semantic_weight, settings.search.keyword_weight) == (0.7, 0.3)
    assert settings.search.similarity_threshold is None
    assert settings.search.exact_limit == 5_000
    assert settings.embedding.provider == "local"
    assert settings.ingestion.max_upload_bytes == 50 * 1024 * 1024
    assert settings.ingestion.worker
    assert settings.logging.level == "info"


def test_settings_are_read_from_every_documented_variable() -> None:
    settings = load(
        **SERVER,
        DATABASE_ADMIN_URL="postgres://admin:pw@db.example/kb",
        KB_DATA_DIR="/srv/kb data",
        DATABASE_PREPARED_STATEMENTS="off",
        KB_DATABASE_POOL_SIZE="3",
        KB_DATABASE_TIMEOUT="2.5",
        KB_DATABASE_STATEMENT_TIMEOUT="7",
        EMBEDDING_PROVIDER="OpenAI",
        EMBEDDING_MODEL="text-embedding-3-large",
        EMBEDDING_DIMENSIONS="256",
        KB_EMBEDDING_QUERY_TIMEOUT="1",
        OPENAI_API_KEY="key-1",
        OPENAI_BASE_URL="http://10.0.0.7:8080/v1",
        GEMINI_API_KEY="key-2",
        GEMINI_BASE_URL="https://gemini.example",
        EMBEDDING_NEXT_PROVIDER="Gemini",
        EMBEDDING_NEXT_MODEL="gemini-embedding-001",
        EMBEDDING_NEXT_DIMENSIONS="1536",
        EMBEDDING_NEXT_API_KEY="key-3",
        EMBEDDING_NEXT_BASE_URL="https://next.example",
        JWT_AUDIENCE="kb",
        JWT_ISSUER="https://issuer.example/",
        KB_SEARCH_DEFAULT_LIMIT="20",
        KB_SEARCH_MAX_LIMIT="100",
        KB_RRF_SEMANTIC_WEIGHT="0.1",
        KB_RRF_KEYWORD_WEIGHT="0.9",
        KB_SEMANTIC_SIMILARITY_THRESHOLD="0",
        KB_EXACT_SEARCH_LIMIT="500",
        KB_MAX_UPLOAD_BYTES="1000",
        KB_WORKER="off",
        KB_WORKERS="4",
        KB_CHUNK_OVERLAP="40",
        KB_HOST="::1",
        KB_PORT="9000",
        KB_METRICS_PORT="9001",
        KB_CORS_ORIGINS="https://app.example.com, http://localhost:3000",
        LOG_LEVEL="WARNING",
        KB_LOG_FORMAT="json",
    )
    database, embedding, search = settings.database, settings.embedding, settings.search
    assert database.url is not None
    assert database.admin_url is not None
    assert database.url.get_secret_value() == "postgresql://kb:pw@db.example:5432/kb"
    assert database.admin_url.get_secret_value() == "postgresql://admin:pw@db.example/kb"
    assert not database.embedded
    assert database.data_dir == Path("/srv/kb data")
    assert not database.prepared_statements
    assert (database.pool_size, database.timeout, database.statement_timeout) == (3, 2.5, 7)
    assert settings.server.cors_origins == ("https://app.example.com", "http://localhost:3000")
    assert embedding.provider == "openai"
    assert embedding.model == "text-embedding-3-large"
    assert (embedding.dimensions, embedding.query_timeout) == (256, 1)
    assert embedding.openai_api_key is not None
    assert embedding.openai_api_key.get_secret_value() == "key-1"
    assert embedding.openai_base_url == "http://10.0.0.7:8080/v1"
    assert embedding.gemini_api_key is not None
    assert embedding.gemini_api_key.get_secret_value() == "key-2"
    assert embedding.gemini_base_url == "https://gemini.example"
    following = settings.next_embedding
    assert (following.provider, following.model, following.dimensions) == (
        "gemini",
        "gemini-embedding-001",
        1536,
    )
    assert following.api_key is not None
    assert (following.api_key.get_secret_value(), following.base_url) == ("key-3", "https://next.example")
    assert settings.jwt.secret is not None
    assert settings.jwt.secret.get_secret_value() == SECRET
    assert (settings.jwt.audience, settings.jwt.issuer) == ("kb", "https://issuer.example/")
    assert (search.default_limit, search.max_limit, search.exact_limit) == (20, 100, 500)
    assert (search.semantic_weight, search.keyword_weight, search.similarity_threshold) == (0.1, 0.9, 0)
    assert settings.ingestion.max_upload_bytes == 1000
    assert not settings.ingestion.worker
    assert (settings.ingestion.concurrency, settings.ingestion.chunk_overlap) == (4, 40)
    assert (settings.server.host, settings.server.port, settings.server.metrics_port) == ("::1", 9000, 9001)
    assert (settings.logging.level, settings.logging.format) == ("warning", "json")


def test_a_data_folder_in_a_home_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert load(KB_DATA_DIR="~/kb").database.data_dir == Path("/home/ada/kb")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://u:hidden@h/db"),
        ("DATABASE_URL", "u:hidden@h/db"),
        ("DATABASE_URL", "postgresql://u:hidden@h"),
        ("DATABASE_URL", "postgresql://u:hidden@h:99999/db"),
        ("DATABASE_URL", "postgresql://u:hidden@h:port/db"),
        ("DATABASE_URL", "postgresql:///db"),
        ("DATABASE_URL", "postgresql+psycopg://u:hidden@h/db"),
        ("DATABASE_URL", "postgresql://u:hid den@h/db"),
        ("DATABASE_ADMIN_URL", "hidden"),
        ("DATABASE_PREPARED_STATEMENTS", "hidden"),
        ("KB_DATA_DIR", "~hidden/kb"),
        ("KB_DATABASE_POOL_SIZE", "0"),
        ("KB_DATABASE_TIMEOUT", "nan"),
        ("KB_DATABASE_STATEMENT_TIMEOUT", "inf"),
        ("EMBEDDING_PROVIDER", "hidden"),
        ("EMBEDDING_DIMENSIONS", "0"),
        ("EMBEDDING_DIMENSIONS", "4001"),
        ("EMBEDDING_MODEL", "m" * 201),
        ("KB_EMBEDDING_QUERY_TIMEOUT", "0"),
        ("OPENAI_BASE_URL", "ftp://hidden.example"),
        ("OPENAI_BASE_URL", "https://user:hidden@api.example"),
        ("GEMINI_BASE_URL", "hidden"),
        ("GEMINI_BASE_URL", "https://api.example/hidden path"),
        ("JWT_SECRET", "h" * 31),
        ("JWT_JWKS_URL", "file:///hidden"),
        ("JWT_JWKS_URL", "https://issuer.example:hidden/"),
        ("JWT_AUDIENCE", "a" * 1001),
        ("KB_SEARCH_DEFAULT_LIMIT", "0"),
        ("KB_SEARCH_MAX_LIMIT", "101"),
        ("KB_SEARCH_MAX_LIMIT", "hidden"),
        ("KB_RRF_SEMANTIC_WEIGHT", "-0.1"),
        ("KB_RRF_KEYWORD_WEIGHT", "nan"),
        ("KB_SEMANTIC_SIMILARITY_THRESHOLD", "1.01"),
        ("KB_SEMANTIC_SIMILARITY_THRESHOLD", "-0.01"),
        ("KB_EXACT_SEARCH_LIMIT", "-1"),
        ("KB_MAX_UPLOAD_BYTES", "50MB"),
        ("KB_WORKER", "2"),
        ("KB_WORKERS", "65"),
        ("KB_CHUNK_OVERLAP", "1001"),
        ("KB_CHUNK_OVERLAP", "-1"),
        ("KB_HOST", "http://hidden"),
        ("KB_PORT", "0"),
        ("KB_PORT", "65536"),
        ("KB_METRICS_PORT", "hidden"),
        ("KB_CORS_ORIGINS", "*"),
        ("KB_CORS_ORIGINS", "hidden.example"),
        ("KB_CORS_ORIGINS", "https://hidden.example/"),
        ("KB_CORS_ORIGINS", "https://user@hidden.example"),
        ("KB_CORS_ORIGINS", "https://a.example,ftp://hidden.example"),
        ("KB_CORS_ORIGINS", "https://hidden.example:x"),
        ("LOG_LEVEL", "hidden"),
        ("KB_LOG_FORMAT", "hidden"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line_without_its_value(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(**{name: value})
    text = str(caught.value)
    assert text.startswith(f"{name}: must be ")
    assert "\n" not in text
    assert "hidden" not in text
    assert caught.value.__suppress_context__


def test_all_wrong_settings_are_named_together() -> None:
    with pytest.raises(ConfigurationError, match=r"^KB_PORT: must be .*; LOG_LEVEL: must be [^;]*$"):
        load(KB_PORT="x", LOG_LEVEL="loud")


@pytest.mark.parametrize(
    ("env", "start"),
    [
        ({"KB_RRF_SEMANTIC_WEIGHT": "0.6"}, "KB_RRF_SEMANTIC_WEIGHT and KB_RRF_KEYWORD_WEIGHT: "),
        (
            {"KB_RRF_SEMANTIC_WEIGHT": "0.700000002"},
            "KB_RRF_SEMANTIC_WEIGHT and KB_RRF_KEYWORD_WEIGHT: ",
        ),
        ({"KB_SEARCH_MAX_LIMIT": "9"}, "KB_SEARCH_DEFAULT_LIMIT: "),
        ({"KB_METRICS_PORT": "8000"}, "KB_METRICS_PORT: "),
        ({"EMBEDDING_DIMENSIONS": "768"}, "EMBEDDING_DIMENSIONS: "),
        ({"EMBEDDING_PROVIDER": "openai"}, "OPENAI_API_KEY: "),
        ({"EMBEDDING_PROVIDER": "gemini"}, "GEMINI_API_KEY: "),
        ({"JWT_SECRET": SECRET, "JWT_JWKS_URL": "https://i.example/k"}, "JWT_SECRET and JWT_JWKS_URL: "),
        ({"DATABASE_URL": SERVER["DATABASE_URL"]}, "JWT_SECRET or JWT_JWKS_URL: "),
    ],
)
def test_contradictory_settings_are_named(env: dict[str, str], start: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(**env)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


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
    ],
)
def test_settings_at_the_edge_are_accepted(env: dict[str, str]) -> None:
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


def test_unknown_variables_are_left_alone() -> None:
    assert load(PATH="/bin", KB_OTHER="1") == Settings()


def test_secrets_do_not_show_in_any_text_of_the_settings() -> None:
    settings = load(
        **SERVER, OPENAI_API_KEY="key-1", GEMINI_API_KEY="key-2", DATABASE_ADMIN_URL="postgres://a:pw2@h/d"
    )
    for text in (repr(settings), str(settings), repr(settings.model_dump()), settings.model_dump_json()):
        for secret in (SECRET, "pw@", "pw2", "key-1", "key-2"):
            assert secret not in text


def test_the_env_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "# ports\nKB_PORT=9000  # mine\nKB_HOST='0.0.0.0'\nLOG_LEVEL=\nOTHER=1\n", encoding="utf-8"
    )
    settings = load_settings({"KB_PORT": "9100"}, env_file=file)
    assert settings.server.port == 9100
    assert settings.server.host == "0.0.0.0"  # noqa: S104  # only compared
    assert settings.logging.level == "info"


def test_a_missing_env_file_is_no_error(tmp_path: Path) -> None:
    assert load_settings({}, env_file=tmp_path / "none") == Settings()


def test_an_env_file_that_is_no_text_is_named(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        (
            {"EMBEDDING_NEXT_MODEL": "x"},
            "EMBEDDING_NEXT_MODEL: has no effect without EMBEDDING_NEXT_PROVIDER",
        ),
        ({"EMBEDDING_NEXT_DIMENSIONS": "8"}, "EMBEDDING_NEXT_DIMENSIONS: has no effect"),
        ({"EMBEDDING_NEXT_API_KEY": "hidden"}, "EMBEDDING_NEXT_API_KEY: has no effect"),
        ({"EMBEDDING_NEXT_PROVIDER": "openai"}, "EMBEDDING_NEXT_API_KEY: must be set"),
        ({"EMBEDDING_NEXT_PROVIDER": "gemini", "OPENAI_API_KEY": "k"}, "EMBEDDING_NEXT_API_KEY: must be set"),
    ],
)
def test_second_model_that_cannot_be_served_is_refused(env: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{reason}") as refusal:
        load(**env)
    assert "hidden" not in str(refusal.value)


def test_second_model_may_use_the_key_of_its_provider() -> None:
    settings = load(EMBEDDING_NEXT_PROVIDER="openai", OPENAI_API_KEY="key")
    assert settings.next_embedding.provider == "openai"
