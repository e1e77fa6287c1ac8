"""Settings that are refused: each bound, contradictions, and that no error shows a value."""

from __future__ import annotations

import pytest

from app.errors import ConfigurationError
from app.settings import load_settings
from tests.settings.environment import SECRET, SERVER, load


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
        ("DATABASE_URL", "postgresql://u:hidden@h,/db"),
        ("DATABASE_URL", "postgresql://u:hidden@h:1,i:99999/db"),
        ("DATABASE_ADMIN_URL", "hidden"),
        ("DATABASE_REPLICA_URLS", "hidden"),
        ("DATABASE_REPLICA_URLS", "postgresql://u@h/db, postgresql://u:hidden@h"),
        ("KB_REPLICA_STALENESS", "0"),
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
        ("JWT_SECRETS", "h" * 40),
        ("JWT_SECRETS", "a:" + "h" * 31),
        ("JWT_SECRETS", f"a:{'h' * 32},a:{'i' * 32}"),
        ("JWT_SECRETS", f"a:{'h' * 32},b:{'h' * 32}"),
        ("JWT_SECRETS", f"a:{'h' * 32},b:{'i' * 32},c:{'j' * 32}"),
        ("JWT_SECRETS", f"a b:{'h' * 32}"),
        ("JWT_SECRETS", f":{'h' * 32}"),
        ("JWT_SECRETS", f"a:{'h' * 32},"),
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
        ("KB_FILES_AT_ONCE", "65"),
        ("KB_WORKERS", "0"),
        ("KB_WORKERS", "33"),
        ("KB_CHUNK_OVERLAP", "1001"),
        ("KB_CHUNK_OVERLAP", "-1"),
        ("KB_OCR_SECONDS", "0"),
        ("KB_SOURCE_MAX_DELETIONS", "1.1"),
        ("KB_SOURCE_MAX_DELETIONS", "nan"),
        ("KB_HOST", "http://hidden"),
        ("KB_PORT", "0"),
        ("KB_PORT", "65536"),
        ("KB_METRICS_PORT", "hidden"),
        ("KB_METRICS_HOST", "http://hidden"),
        ("KB_CORS_ORIGINS", "*"),
        ("KB_PUBLIC_URL", "https://hidden.example/path"),
        ("KB_PUBLIC_URL", "hidden.example"),
        ("KB_MCP_ISSUER", "hidden.example"),
        ("KB_MCP_SCOPES", 'read "hidden"'),
        ("KB_OIDC_ISSUER", "hidden.example"),
        ("KB_OIDC_NAME", "h" * 61),
        ("KB_OIDC_SCOPES", "hidden"),
        ("KB_OIDC_SCOPES", 'openid "hidden"'),
        ("KB_OIDC_ROLES_CLAIM", "h" * 201),
        ("KB_OIDC_SESSION_HOURS", "0"),
        ("KB_OIDC_SESSION_HOURS", "169"),
        ("KB_OIDC_SESSION_HOURS", "nan"),
        ("KB_OIDC_ORIGINS", "https://hidden.example/"),
        ("KB_CORS_ORIGINS", "hidden.example"),
        ("KB_CORS_ORIGINS", '["https://hidden.example"]'),
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
    assert caught.value.__context__ is None


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
        (
            {"JWT_SECRETS": f"a:{SECRET}", "JWT_JWKS_URL": "https://i.example/k"},
            "JWT_SECRETS and JWT_JWKS_URL: ",
        ),
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
def test_a_second_model_that_cannot_be_served_is_refused(env: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{reason}") as refusal:
        load(**env)
    assert "hidden" not in str(refusal.value)


def test_a_second_model_may_use_the_key_of_its_provider() -> None:
    settings = load(EMBEDDING_NEXT_PROVIDER="openai", OPENAI_API_KEY="key")
    assert settings.next_embedding.provider == "openai"
