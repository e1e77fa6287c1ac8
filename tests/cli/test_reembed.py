"""Moving a tenant to another model on the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.embedded.server import EmbeddedPostgres
from tests.cli.conftest import CommandLine, write_lines
from tests.fixtures.embedded import FAST


@pytest.fixture
def own_data_dir(knowledge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A separate database: once a tenant is on another model, every command needs that model."""
    data_dir = tmp_path / "data"
    with EmbeddedPostgres(data_dir, settings=FAST):
        monkeypatch.delenv("DATABASE_URL")
        monkeypatch.delenv("EMBEDDING_DIMENSIONS")
        monkeypatch.setenv("KB_DATA_DIR", str(data_dir))
        yield


@pytest.fixture
def two_models(knowledge: CommandLine, own_data_dir: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock of 768 dimensions, with the one of 32 registered as the second model."""
    monkeypatch.setenv("EMBEDDING_NEXT_PROVIDER", "mock")
    monkeypatch.setenv("EMBEDDING_NEXT_DIMENSIONS", "32")
    refused = knowledge("tenant", "create", "early")
    assert refused.err == (
        "error: EMBEDDING_NEXT_PROVIDER: the model mock/text-hash with 32 dimensions is not registered;"
        " run: knowledge model add --next\n"
    )
    added = knowledge.succeed("model", "add", "--next")
    assert added.out == "registered mock/text-hash, 32 dimensions (number 2)\n"


@pytest.mark.slow
def test_tenant_moves_to_another_model_back_and_again(
    knowledge: CommandLine, two_models: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge.succeed("tenant", "create", "mover")
    lines = [{"content": f"berth {n}", "title": f"Title {n}"} for n in range(20)]
    knowledge.succeed("import", str(write_lines(tmp_path / "a.jsonl", lines)), "-t", "mover")
    assert "no model change is in progress" in knowledge("reembed", "status", "-t", "mover").err

    held = knowledge.succeed("reembed", "-t", "mover", "--by-hand", "--json").json
    assert (held["state"], held["progress"], held["comparison"]["depth"]) == ("ready", 1, 2)
    assert held["decision"]["basis"] == "request"
    shown = knowledge.succeed("reembed", "switch", "-t", "mover").out
    assert shown.startswith("tenant mover, mock/text-hash (768) to mock/text-hash (32): switched, 100% of 20")
    assert "to go back: knowledge reembed back --tenant mover" in shown
    assert knowledge.succeed("reembed", "back", "-t", "mover", "--json").json["state"] == "ready"
    ended = knowledge.succeed("reembed", "end", "-t", "mover")
    assert ended.out == "tenant mover: the change has ended, and unused vectors have been removed\n"

    gated = knowledge.succeed("reembed", "-t", "mover", "--rate", "100000").out
    assert "ready, 100% of 20 entries" in gated
    assert "the switch is left to you: " in gated
    assert "to switch: knowledge reembed switch --tenant mover" in gated
    assert "switched, 100% of 20" in knowledge.succeed("reembed", "switch", "-t", "mover").out
    found = knowledge.succeed("search", "berth 7", "-t", "mover", "--mode", "semantic", "--json").json
    assert found["metadata"]["degraded"] == []
    checks = knowledge.succeed("doctor", "--json").json
    assert [c["status"] for c in checks if c["check"] in ("model", "provider")] == ["ok"] * 4

    monkeypatch.delenv("EMBEDDING_NEXT_PROVIDER")
    monkeypatch.delenv("EMBEDDING_NEXT_DIMENSIONS")
    refused = knowledge("search", "berth", "-t", "mover")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "tenant mover has vectors of mock/text-hash with 32 dimensions" in refused.err


def test_vectors_are_rebuilt_with_the_same_model(knowledge: CommandLine, tenant: str) -> None:
    rebuilt = knowledge.succeed("reembed", "rebuild", "-t", tenant).out
    assert rebuilt.startswith(f"tenant {tenant}, rebuild of mock/text-hash (")
    assert ": switched, 100% of " in rebuilt
    assert "to go back" not in rebuilt
    ended = knowledge.succeed("reembed", "end", "-t", tenant)
    assert ended.out.startswith(f"tenant {tenant}: the change has ended")
    refused = knowledge("reembed", "rebuild", "-t", tenant, "--by-hand")
    assert (refused.status, refused.err) == (1, "error: --switch-at, --by-hand: are allowed for start only\n")


def test_move_without_a_second_model_names_the_setting(knowledge: CommandLine, tenant: str) -> None:
    result = knowledge("reembed", "-t", tenant)
    assert (result.status, result.err) == (
        1,
        "error: model: this service has no second model; set EMBEDDING_NEXT_PROVIDER, or rebuild the vectors of the"
        " model in use\n",
    )
