from __future__ import annotations

from pydantic import TypeAdapter

from app.contract.entries import RelatedResponse
from tests.cli.conftest import CommandLine


def test_related_prints_the_content_of_the_http_answer(knowledge: CommandLine, filled: str) -> None:
    hits = knowledge.succeed("search", "crane", "-t", filled, "--mode", "keyword", "--json").json["results"]
    answer = knowledge.succeed("related", hits[0]["id"], "-t", filled, "--json").json
    assert TypeAdapter(RelatedResponse).validate_python(answer).metadata.relationship_types == ["tag_overlap"]
    assert answer["results"][0]["overlap_count"] == 2
    text = knowledge.succeed("related", hits[0]["id"], "-t", filled).out
    assert text.startswith("[bold]Moorings\n   tag_overlap (2 shared tags) · fact · ")
    lonely = knowledge.succeed("search", "diver", "-t", filled, "--mode", "keyword", "--json").json["results"]
    assert knowledge.succeed("related", lonely[0]["id"], "-t", filled).out == "there are no related entries\n"
