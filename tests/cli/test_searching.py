from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from app.api.models.entries import RelatedResponse
from app.api.models.search import SearchResponse
from app.knowledge.results import SearchMetadata
from tests.cli.conftest import CommandLine, write_lines

ENTRIES = [
    {"content": "Moorings are inspected every March.", "title": "[bold]Moorings", "tags": ["quay", "safety"]},
    {"content": "The crane lifts twelve tons.", "tags": ["quay", "safety", "crane"]},
    {"content": "Inspecting a mooring takes a diver.", "entry_type": "lesson", "confidence": 0.4},
]


@pytest.fixture
def filled(knowledge: CommandLine, tenant: str, tmp_path: Path) -> str:
    """The slug of a tenant with three entries."""
    knowledge.succeed("import", str(write_lines(tmp_path / "entries.jsonl", ENTRIES)), "-t", tenant)
    return tenant


def test_search_prints_what_the_http_answer_holds(knowledge: CommandLine, filled: str) -> None:
    answer = knowledge.succeed("search", "inspect mooring", "-t", filled, "-n", "1", "--json").json
    assert SearchResponse.model_validate(answer).results[0].sources
    assert answer["metadata"].keys() == {field.name for field in fields(SearchMetadata)}
    assert (len(answer["results"]), answer["debug_info"]) == (1, None)
    explained = knowledge.succeed("search", "mooring", "-t", filled, "--explain", "--json").json
    assert explained["debug_info"]


def test_search_prints_hits_for_people(knowledge: CommandLine, filled: str) -> None:
    text = knowledge.succeed("search", "inspect mooring", "-t", filled, "--mode", "keyword").out
    lines = text.splitlines()
    titles = {line for line in lines if line[:3] in ("1. ", "2. ")}
    assert len(titles) == 2
    # What is stored is no markup.
    assert any(title.endswith("[bold]Moorings") for title in titles)
    assert "   Moorings are inspected every March." in lines
    assert any("keyword" in line and "#quay #safety" in line for line in lines)
    assert lines[-1].startswith("2 of 2 hits in ")


def test_search_marks_the_words_it_found_on_a_terminal(
    knowledge: CommandLine, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    text = knowledge.succeed("search", "mooring", "-t", filled, "--mode", "keyword").out
    assert "\x1b[1;32mMoorings\x1b[0m are inspected" in text
    assert "Inspecting a \x1b[1;32mmooring\x1b[0m takes" in text


def test_search_filters_as_told(knowledge: CommandLine, filled: str) -> None:
    def contents(*options: str) -> set[str]:
        found = knowledge.succeed("search", "inspect mooring crane", "-t", filled, "--json", *options).json
        return {hit["content"].split()[0] for hit in found["results"]}

    words = ("--mode", "keyword")
    assert contents(*words) == {"Moorings", "The", "Inspecting"}
    assert contents(*words, "--type", "lesson") == {"Inspecting"}
    assert contents(*words, "--type", "lesson", "--type", "fact", "--tag", "crane") == {"The"}
    assert contents(*words, "--tag", "crane", "--tag", "quay", "--all-tags") == {"The"}
    assert contents(*words, "--min-confidence", "0.5") == {"Moorings", "The"}
    assert contents(*words, "--source", "asset") == set()


def test_search_that_finds_nothing_says_so(knowledge: CommandLine, filled: str) -> None:
    result = knowledge.succeed("search", "zzzz", "-t", filled, "--mode", "keyword")
    assert result.out.startswith("nothing found\n")


def test_related_prints_what_the_http_answer_holds(knowledge: CommandLine, filled: str) -> None:
    hits = knowledge.succeed("search", "crane", "-t", filled, "--mode", "keyword", "--json").json["results"]
    answer = knowledge.succeed("related", hits[0]["id"], "-t", filled, "--json").json
    assert RelatedResponse.model_validate(answer).metadata.relationship_types == ["tag_overlap"]
    assert answer["results"][0]["overlap_count"] == 2
    text = knowledge.succeed("related", hits[0]["id"], "-t", filled).out
    assert text.startswith("[bold]Moorings\n   tag_overlap (2 shared tags) · fact · ")
    lonely = knowledge.succeed("search", "diver", "-t", filled, "--mode", "keyword", "--json").json["results"]
    assert knowledge.succeed("related", lonely[0]["id"], "-t", filled).out == "nothing is related to it\n"
