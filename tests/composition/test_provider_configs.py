"""The key that is sent to each address, with one provider and with two."""

from __future__ import annotations

import pytest

from app.composition.providers import build_providers, configured_models, provider_configs
from app.errors import ConfigurationError
from app.settings import load_settings

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
        (
            {"GEMINI_API_KEY": "g", "EMBEDDING_NEXT_PROVIDER": "gemini"},
            [("local", None, None), ("gemini", "g", None)],
        ),
    ],
)
def test_key_is_sent_only_to_its_own_address(env: dict[str, str], expected: list[Access]) -> None:
    assert access(**env) == expected


def test_an_unknown_second_model_is_refused_by_its_own_variable() -> None:
    settings = load_settings({"EMBEDDING_NEXT_PROVIDER": "mock", "EMBEDDING_NEXT_MODEL": "unheard-of"}, env_file=None)
    for build in (build_providers, configured_models):
        with pytest.raises(ConfigurationError, match=r"^EMBEDDING_NEXT_MODEL: mock has no model 'unheard-of'"):
            build(settings)
