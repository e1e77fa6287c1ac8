"""The token budget of an answer: the first hit always fits, the budget is used, and omitted hits are listed."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.contract.results import Hit, SearchMetadata, SearchResult
from app.embeddings.provider import estimate_tokens
from app.mcp.answers.hits import answer_search
from app.mcp.arguments import MIN_TOKEN_BUDGET

WORDS = ("the", "harbour", "opens", "at six", "42", "boats", "wait:", "naïve", "größer", "KNOW-004", "crane")
NOW = datetime(2026, 1, 15, tzinfo=UTC)


def make_result(seed: int, hits: int = 10) -> SearchResult:
    chance = random.Random(seed)  # noqa: S311

    def text(words: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(words))

    def make_hit(number: int) -> Hit:
        content = text(chance.choice([1, 5, 20, 80, 400, 3_000]))
        start = chance.randrange(len(content))
        return Hit(
            UUID(int=chance.getrandbits(128)), "fact", text(chance.choice([0, 3, 60])) or None, content,
            [text(1) for _ in range(chance.choice([0, 2, 30]))], ["all"], 1.0, "global", None, [], None, False,
            UUID(int=1) if chance.random() < 0.5 else None, None, {"page": 3}, text(20), 0, NOW, NOW,
            score=1 / (60 + number), similarity=0.5, keyword_score=2.0, sources=["semantic"],
            snippet=content[start : start + 240], snippet_start=start, snippet_end=min(len(content), start + 240),
            matched_terms=(), group=None, validity=None, origin=None,
        )  # fmt: skip

    metadata = SearchMetadata(
        search_id=UUID(int=2), total=3 * hits, strong_match=False, fallback_mode=True, search_modes_used=["keyword"],
        degraded=["embedding_unavailable"], exact=True, pending=0, estimated_matches=hits, suggestions=[],
        relaxations=[], reranked=False, next_cursor=None,
        query_time_ms=1, waiting_ms=0, embedding_ms=0, semantic_ms=0, keyword_ms=0, fusion_ms=0, reranking_ms=0,
    )  # fmt: skip
    return SearchResult([make_hit(number) for number in range(hits)], metadata, None, None)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("budget", [MIN_TOKEN_BUDGET, 250, 300, 500, 1_000, 2_000, 5_000])
@pytest.mark.parametrize("seed", range(25))
def test_a_budget_is_met_and_used_while_hits_remain(seed: int, budget: int) -> None:
    result = make_result(seed)
    answer = answer_search(result, budget)
    used, shown = answer.structured["budget"], answer.structured["results"]
    assert used["tokens"] == estimate_tokens(answer.text) <= budget
    assert shown, "the first hit always fits"
    assert shown[0]["content"].strip("…")
    assert [hit["id"] for hit in shown] + used["left_out"] == [str(hit.id) for hit in result]
    assert used["hits_left_out"] == len(used["left_out"])
    if used["left_out"]:
        # In the smallest budgets, the id of one more hit may be more than the rest.
        assert used["tokens"] >= min(0.85 * budget, budget - 41)
        assert f"{used['hits_left_out']} further hits are omitted" in answer.text
        assert "increase token_budget" in answer.text
    assert [hit["content_cut"] for hit in shown[:-1]] == [False] * (len(shown) - 1)


def test_a_cut_first_hit_shows_its_snippet() -> None:
    for seed in range(25):
        result = make_result(seed, 1)
        (hit,) = result
        answer = answer_search(result, 400)
        content = answer.structured["results"][0]["content"].strip("…")
        assert content in hit.content
        if len(content) > 300 and answer.structured["results"][0]["content_cut"]:
            assert hit.snippet[:100].strip() in content


def test_hits_that_are_left_out_are_listed_as_far_as_they_fit() -> None:
    result = make_result(3, 50)
    answer = answer_search(result, 1_000)
    left_out = answer.structured["budget"]["left_out"]
    listed = answer.text.rpartition("Omitted: ")[2].split() if "Omitted: " in answer.text else []
    assert listed == left_out[: len(listed)]


@pytest.mark.parametrize("budget", [None, 2_000])
def test_a_text_that_was_recognised_on_an_image_is_named_so(budget: int | None) -> None:
    for asset_id, metadata, named in (
        (UUID(int=1), {"ocr": True}, True),
        (UUID(int=1), {}, False),
        (None, {"ocr": True}, False),
    ):
        result = make_result(1, 1)
        hit = replace(result[0], asset_id=asset_id, metadata=metadata)
        answer = answer_search(replace(result, results=[hit]), budget)
        assert ("recognised on an image" in answer.text) == named
