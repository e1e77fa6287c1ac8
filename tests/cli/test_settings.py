from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from app.cli.settings import read_changes
from app.contract.search import Weights
from app.contract.settings import TenantSettings
from app.errors import InvalidInput
from tests.cli.conftest import CommandLine


def test_settings_are_changed_and_reset(knowledge: CommandLine, tenant: str) -> None:
    changed = knowledge.succeed(
        *("settings", "set", "keep_query_text=on", "fusion=score", "limits.entries=5000", "--json"),
        *("weights.semantic=0.6", "weights.keyword=0.4", "-t", tenant),
    ).json
    assert TypeAdapter(TenantSettings).validate_python(changed).weights == Weights(0.6, 0.4)
    assert (changed["keep_query_text"], changed["fusion"], changed["limits"]["entries"]) == (
        True,
        "score",
        5000,
    )
    shown = knowledge.succeed("settings", "show", "-t", tenant)
    lines = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (lines["SETTING"], lines["keep_query_text"], lines["weights.semantic"]) == ("VALUE", "on", "0.6")
    assert (lines["limits.bytes"], lines["type_weights.lesson"]) == ("-", "2.0")
    back = knowledge.succeed("settings", "set", "fusion=default", "weights=default", "-t", tenant, "--json")
    assert (back.json["fusion"], back.json["weights"], back.json["keep_query_text"]) == ("score", None, True)


def test_setting_out_of_range_is_refused_with_its_name(knowledge: CommandLine, tenant: str) -> None:
    result = knowledge("settings", "set", "verified_boost=much", "colour=blue", "-t", tenant)
    assert (result.status, result.out) == (1, "")
    assert "verified_boost: must be a number" in result.err
    assert "colour: unknown field" in result.err
    beyond = knowledge("settings", "set", "verified_boost=200", "tuned=default", "-t", tenant)
    assert "verified_boost: must be at most 100; tuned: unknown field" in beyond.err
    above = knowledge("settings", "set", f"limits.entries={10**12}", "-t", tenant)
    assert "limits.entries: must be at most 10000000" in above.err


def test_parts_of_a_setting_are_merged_with_the_existing_ones() -> None:
    current = {"weights": {"semantic": 0.5, "keyword": 0.5}, "type_weights": {"lesson": 2.0}, "limits": {"entries": 9}}
    assert read_changes(["weights.semantic=0.6"], current) == {"weights": {"semantic": 0.6, "keyword": 0.5}}
    assert read_changes(["type_weights.fact=3"], current) == {"type_weights": {"lesson": 2.0, "fact": 3}}
    assert read_changes(["limits.bytes=default", "limits.entries=7"], current) == {
        "limits": {"bytes": None, "entries": 7}
    }
    assert read_changes(['weights={"semantic":1,"keyword":0}', "fusion=score"], current) == {
        "weights": {"semantic": 1, "keyword": 0},
        "fusion": "score",
    }
    for wrong in ("fusion", "=score"):
        with pytest.raises(InvalidInput, match="does not have the form NAME=VALUE"):
            read_changes([wrong], current)
