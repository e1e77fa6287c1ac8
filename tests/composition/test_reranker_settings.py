"""The settings of the reranker."""

from __future__ import annotations

from typing import Any

import pytest

from app.composition.providers import build_configured_reranker, searches_per_core
from app.errors import ConfigurationError
from app.settings import load_settings

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
            "KB_RERANKER_API: must be cohere, jina, vllm or tei",
        ),
        (
            {"KB_RERANKER_URL": URL, "KB_RERANKER_CANDIDATES": "1"},
            "KB_RERANKER_CANDIDATES: must be an integer",
        ),
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
