"""knowledge search and its like."""

import asyncio
import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from app.composition.services import build_services
from app.contract.entries import EntryDraft, RelatedResponse
from app.contract.results import SearchMetadata, SearchResult
from app.contract.settings import SettingsPatch
from app.db.database import Database
from app.embeddings.factory import ProviderConfig, build_provider
from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import MODEL, TestDatabase


def test_search_prints_the_content_of_the_http_answer(knowledge: CommandLine, filled: str) -> None:
    answer = knowledge.succeed("search", "inspect mooring", "-t", filled, "-n", "1", "--json").json
    assert TypeAdapter(SearchResult).validate_python(answer).results[0].sources
    assert answer["metadata"].keys() == {field.name for field in fields(SearchMetadata)}
    assert (len(answer["results"]), answer["debug_info"]) == (1, None)
    explained = knowledge.succeed("search", "mooring", "-t", filled, "--explain", "--json").json
    assert explained["debug_info"]


def test_search_prints_hits_for_people(knowledge: CommandLine, filled: str) -> None:
    text = knowledge.succeed(*("search", "inspect mooring", "-t", filled, "--mode", "keyword", "--fusion", "rrf")).out
    lines = text.splitlines()
    titles = {line for line in lines if line[:3] in ("1. ", "2. ")}
    assert len(titles) == 2
    # Stored text is not interpreted as markup or as control characters.
    assert any(title.endswith("[bold]Moorings") for title in titles)
    assert "   Moorings are inspected every ␛[31mMarch." in lines
    assert "\x1b" not in text
    assert any("fact · #quay #safety" in line for line in lines)
    assert any(re.fullmatch(r"   score 0\.0049: keyword #1 \(BM25 \d\.\d\d, .*mooring.*\)", line) for line in lines)
    assert lines[-1].startswith("1 to 2 of 2 hits in ")


def test_search_highlights_matching_words_on_a_terminal(
    knowledge: CommandLine, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ("search", "mooring", "-t", filled, "--mode", "keyword")
    text = knowledge.succeed(*arguments).out
    assert "\x1b[1;32mMoorings\x1b[0m are inspected" in text
    assert "Inspecting a \x1b[1;32mmooring\x1b[0m takes" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1mMoorings\x1b[0m are inspected" in knowledge.succeed(*arguments).out
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in knowledge.succeed(*arguments).out


def test_search_explains_a_score_that_can_be_recomputed(knowledge: CommandLine, filled: str) -> None:
    explained = ("search", "crane lifts", "-t", filled, "--explain", "--mode", "keyword")
    text = knowledge.succeed(*explained).out
    found = re.search(
        r"mode keyword, fusion score \(keyword scale (\S+)\), weights 0\.5 semantic and 0\.5 keyword", text
    )
    words = re.search(r"score (\S+): keyword #1 \(BM25 ([\d.]+)[,)]", text)
    assert found is not None
    assert words is not None
    assert float(words[1]) == pytest.approx(0.5 * (float(words[2]) / float(found[1])) ** 1.5, abs=5e-3)
    text = knowledge.succeed(*explained, "--fusion", "rrf").out
    assert "mode keyword, fusion rrf (k 60), weights 0.7 semantic and 0.3 keyword (from default), boost none\n" in text
    assert "keyword: exact, 1 candidates of 1 matches, best BM25 " in text
    assert f"   {0.3 / 61:.4f} = {0.3 / 61:.4f} keyword\n" in text
    hybrid = knowledge.succeed(
        *("search", "The crane lifts twelve tons.", "-t", filled, "--explain", "--fusion", "rrf")
    ).out
    assert re.search(r"semantic: exact, \d candidates of 3 passages with a similarity of 0\.1 or more", hybrid)
    assert f"score {1 / 61:.4f}: semantic #1 (similarity 1.00), keyword #1 (BM25 " in hybrid
    assert f"   {1 / 61:.4f} = {0.7 / 61:.4f} semantic + {0.3 / 61:.4f} keyword\n" in hybrid


def test_search_continues_after_its_page(knowledge: CommandLine, filled: str) -> None:
    arguments = ("search", "inspect mooring crane", "-t", filled, "--mode", "keyword", "-n", "2")
    first = knowledge.succeed(*arguments).out.splitlines()
    _, _, cursor = first[-1].partition("more: the same command with --cursor ")
    second = knowledge.succeed(*arguments, "--cursor", cursor).out.splitlines()
    numbered = [line[:3] for line in (*first, *second) if re.match(r"\d\. ", line)]
    assert numbered == ["1. ", "2. ", "3. "]
    assert second[-1].startswith("3 to 3 of 3 hits in ")
    explained = knowledge.succeed(*arguments, "--cursor", cursor, "--explain").out.splitlines()
    assert explained[0].startswith("mode keyword, fusion score")
    assert any(line.startswith("   score ") and "keyword #3 (BM25 " in line for line in explained)


def test_search_applies_filters(knowledge: CommandLine, filled: str) -> None:
    def contents(*options: str) -> set[str]:
        found = knowledge.succeed("search", "inspect mooring crane", "-t", filled, "--json", *options).json
        return {hit["content"].split()[0] for hit in found["results"]}

    words = ("--mode", "keyword")
    assert contents(*words, "--type", "lesson") == {"Inspecting"}
    assert contents(*words, "--type", "lesson", "--type", "fact", "--tag", "crane") == {"The"}
    assert contents(*words, "--tag", "crane", "--tag", "quay", "--all-tags") == {"The"}
    assert contents(*words, "--min-confidence", "0.5") == {"Moorings", "The"}
    assert contents(*words, "--source", "asset") == set()
    assert contents(*words, "--asset", "01890000-0000-7000-8000-000000000000") == set()
    assert contents(*words, "--metadata", '{"year": 1990}') == set()
    assert len(contents(*words, "--boost", "recent", "--recent-half-life-days", "7")) == 3


def test_search_observes_the_limits_of_the_tenant_and_the_service(
    knowledge: CommandLine, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(*options: str) -> int:
        arguments = ("search", "inspect mooring crane", "-t", filled, "--mode", "keyword", "--json")
        return len(knowledge.succeed(*arguments, *options).json["results"])

    assert count() == 3
    knowledge.succeed("settings", "set", "max_limit=2", "-t", filled)
    try:
        assert count() == 2, "the service's default is above the tenant's limit"
        refused = knowledge("search", "mooring", "-t", filled, "-n", "3")
        assert refused.status != 0
        assert "limit: must be between 1 and 2 in this tenant" in refused.err
        knowledge.succeed("settings", "set", "default_limit=1", "-t", filled)
        assert (count(), count("-n", "2")) == (1, 2)
    finally:
        knowledge.succeed("settings", "set", "max_limit=default", "default_limit=default", "-t", filled)
    monkeypatch.setenv("KB_SEARCH_DEFAULT_LIMIT", "2")
    assert count() == 2


def test_search_without_results_is_reported(knowledge: CommandLine, filled: str) -> None:
    result = knowledge.succeed("search", "zzzz", "-t", filled, "--mode", "keyword")
    assert result.out.startswith("nothing found\n")


def test_search_prints_facets_over_all_matches_and_passages_of_a_file(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    part = "A mooring of the quay is described here. " + "This sentence only makes the part longer. " * 45
    (tmp_path / "moorings.md").write_text("\n\n".join(f"## Part {n}\n\n{n}: {part}" for n in "abcdefg"), "utf-8")
    knowledge.succeed("ingest", str(tmp_path / "moorings.md"), "-t", tenant)
    command = ("search", "mooring", "-t", tenant, "--mode", "keyword", "--group-by", "asset")
    lines = knowledge.succeed(*command, "--facet", "source", "--facet", "metadata.page").out.splitlines()
    assert len([line for line in lines if line.startswith("   also score ")]) == 3
    assert any(re.fullmatch(r"   and \d+ more passages?", line) for line in lines)
    assert any(re.fullmatch(r"source: asset \d+", line) for line in lines)
    assert any(re.fullmatch(r"metadata\.page: \(none \d+\)", line) for line in lines)
    assert knowledge("search", "x", "-t", tenant, "--facet", "title").err.startswith("error: facets: must be")


def test_related_prints_the_content_of_the_http_answer(knowledge: CommandLine, filled: str) -> None:
    hits = knowledge.succeed("search", "crane", "-t", filled, "--mode", "keyword", "--json").json["results"]
    answer = knowledge.succeed("related", hits[0]["id"], "-t", filled, "--json").json
    assert TypeAdapter(RelatedResponse).validate_python(answer).metadata.relationship_types == ["tag_overlap"]
    assert answer["results"][0]["overlap_count"] == 2
    text = knowledge.succeed("related", hits[0]["id"], "-t", filled).out
    assert text.startswith("[bold]Moorings\n   tag_overlap (2 shared tags) · fact · ")
    lonely = knowledge.succeed("search", "diver", "-t", filled, "--mode", "keyword", "--json").json["results"]
    assert knowledge.succeed("related", lonely[0]["id"], "-t", filled).out == "there are no related entries\n"


async def change(database: TestDatabase, slug: str) -> str:
    """Let the tenant keep versions and change an entry; returns a time before the change."""
    provider = build_provider(ProviderConfig(kind="mock", dimensions=MODEL.dimensions))
    opened = Database(database.service_dsn, pool_size=2)
    services = await build_services(opened, provider)
    try:
        tenant = await services.tenants.find(slug)
        await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30), actor="test")
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content="the old harbour"))
        before = datetime.now(UTC).isoformat()
        await services.entries.change(tenant.id, entry.id, EntryDraft(content="the new harbour"))
        return before
    finally:
        await services.close()
        await provider.close()
        await opened.close()


def test_search_finds_what_was_valid_then(knowledge: CommandLine, tenant: str, cli_database: TestDatabase) -> None:
    before = asyncio.run(change(cli_database, tenant))
    search = ("search", "harbour", "-t", tenant, "--mode", "keyword")
    for options, text in (((), "the new harbour"), (("--as-of", before), "the old harbour")):
        (hit,) = knowledge.succeed(*search, *options, "--json").json["results"]
        assert hit["content"] == text
    assert "the old harbour" in knowledge.succeed(*search, "--as-of", before).out
    refused = knowledge(*search, "--as-of", "2001-01-01T00:00:00Z")
    assert refused.status != 0
    assert "must not be before" in refused.err
