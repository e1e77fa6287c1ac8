"""Services, providers and the reranker from the settings."""

from typing import Any

import pytest

from app.composition.providers import (
    build_configured_reranker,
    build_providers,
    configured_models,
    provider_configs,
    searches_per_core,
)
from app.composition.services import open_services
from app.contract.administration import NewTenant
from app.errors import ConfigurationError
from app.settings import load_settings


async def test_the_bounds_of_records_are_those_of_the_settings(service_dsn: str) -> None:
    settings = load_settings(
        {
            "DATABASE_URL": service_dsn,
            "EMBEDDING_PROVIDER": "mock",
            "EMBEDDING_DIMENSIONS": "16",
            "JWT_SECRET": "s" * 32,
            "KB_AUDIT_ROWS": "1500000",
            "KB_LIMIT_RECEIPTS": "2000",
        },
        None,
    )
    async with open_services(settings) as services:
        tenant = await services.tenants.create(NewTenant("bounded"), actor="test")
        found = (await services.administration.stats(tenant.id)).records
    assert (found["audit"].limit, found["receipts"].limit) == (1_500_000, 2_000)


Access = tuple[str, str | None, str | None]


def access(**env: str) -> list[Access]:
    """Kind, key and address of each provider."""
    configs = provider_configs(load_settings(env, env_file=None))
    return [(config.kind, config.api_key, config.base_url) for config in configs]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, [("local", None, None)]),
        ({"EMBEDDING_NEXT_PROVIDER": "mock"}, [("local", None, None), ("mock", None, None)]),
        (
            {
                "EMBEDDING_PROVIDER": "openai",
                "OPENAI_API_KEY": "k",
                "OPENAI_BASE_URL": "http://old.example",
                "EMBEDDING_NEXT_PROVIDER": "openai",
            },
            [("openai", "k", "http://old.example"), ("openai", "k", "http://old.example")],
        ),
        (
            {
                "EMBEDDING_PROVIDER": "openai",
                "OPENAI_API_KEY": "k",
                "EMBEDDING_NEXT_PROVIDER": "openai",
                "EMBEDDING_NEXT_API_KEY": "k2",
            },
            [("openai", "k", None), ("openai", "k2", None)],
        ),
        (
            {
                "EMBEDDING_PROVIDER": "openai",
                "OPENAI_API_KEY": "k",
                "EMBEDDING_NEXT_PROVIDER": "openai",
                "EMBEDDING_NEXT_BASE_URL": "http://new.example",
            },
            [("openai", "k", None), ("openai", None, "http://new.example")],
        ),
        ({"GEMINI_API_KEY": "g", "EMBEDDING_NEXT_PROVIDER": "gemini"}, [("local", None, None), ("gemini", "g", None)]),
    ],
)
def test_key_is_sent_only_to_its_own_address(env: dict[str, str], expected: list[Access]) -> None:
    assert access(**env) == expected


def test_an_unknown_second_model_is_refused_by_its_own_variable() -> None:
    settings = load_settings({"EMBEDDING_NEXT_PROVIDER": "mock", "EMBEDDING_NEXT_MODEL": "unheard-of"}, env_file=None)
    for build in (build_providers, configured_models):
        with pytest.raises(ConfigurationError, match=r"^EMBEDDING_NEXT_MODEL: mock has no model 'unheard-of'"):
            build(settings)


URL = "http://10.0.0.7:8080/rerank"


def load(**variables: str) -> Any:
    return load_settings(variables)


async def test_the_reranker_is_built_from_its_settings() -> None:
    settings = load(
        KB_RERANKER_URL=URL,
        KB_RERANKER_API="TEI",
        KB_RERANKER_MODEL="bge",
        KB_RERANKER_API_KEY="key-4",
        KB_RERANKER_CANDIDATES="20",
        KB_RERANKER_TIMEOUT="0.5",
    )
    assert (settings.reranker.candidates, settings.reranker.timeout) == (20, 0.5)
    assert "key-4" not in repr(settings)
    built = build_configured_reranker(settings)
    assert built is not None
    assert built.name == "tei/bge"
    assert searches_per_core(settings) > 1
    await built.close()


def test_there_is_no_reranker_by_default() -> None:
    assert build_configured_reranker(load()) is None
    assert searches_per_core(load()) == 1


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"KB_RERANKER_URL": "hidden"}, "KB_RERANKER_URL: must be"),
        ({"KB_RERANKER_URL": "http://user:hidden@127.0.0.1/rerank"}, "KB_RERANKER_URL: must be"),
        (
            {"KB_RERANKER_URL": URL, "KB_RERANKER_API": "hidden"},
            "KB_RERANKER_API: must be cohere, jina, vllm, tei or fastembed",
        ),
        ({"KB_RERANKER_URL": URL, "KB_RERANKER_CANDIDATES": "1"}, "KB_RERANKER_CANDIDATES: must be an integer"),
        ({"KB_RERANKER_URL": URL, "KB_RERANKER_TIMEOUT": "0"}, "KB_RERANKER_TIMEOUT: must be a number"),
        ({"KB_RERANKER_MODEL": "hidden"}, "KB_RERANKER_MODEL: has no effect without KB_RERANKER_URL"),
        ({"KB_RERANKER_API_KEY": "hidden"}, "KB_RERANKER_API_KEY: has no effect without KB_RERANKER_URL"),
        ({"KB_RERANKER_URL": "http://127.0.0.1:8080"}, "KB_RERANKER_URL: must be the whole address"),
    ],
)
def test_an_invalid_setting_is_named_in_one_line(variables: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_configured_reranker(load(**variables))
    assert str(caught.value).startswith(line)
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_goes_only_to_an_address_from_the_same_source(tmp_path: Any) -> None:
    file = tmp_path / ".env"
    file.write_text(f"KB_RERANKER_URL={URL}\n")
    with pytest.raises(ConfigurationError, match="KB_RERANKER_API_KEY and KB_RERANKER_URL: must come from one source"):
        load_settings({"KB_RERANKER_API_KEY": "key-4"}, file)
