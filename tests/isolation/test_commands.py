"""Every command that takes an id or a cursor, called with another tenant's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints
from uuid import UUID, uuid4

import pytest

from app.cli.main import command as program
from tests.cli.conftest import CommandLine, clean_environment, restored_logging
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.database.seeded import Seeded
from tests.isolation.holdings import replace_cursor_id

__all__ = ["clean_environment", "restored_logging"]


Takes = Callable[[Mapping[str, Any]], bool]


CHANGES = {("erase",): ("--entry",), ("quarantine", "release"): ()}
"""Commands that change what they name, with the option before the id: none is run with an id of its own tenant."""


def takes_id(parameters: Mapping[str, Any]) -> bool:
    return any(kind is UUID or UUID in get_args(kind) for kind in parameters.values())


def takes_cursor(parameters: Mapping[str, Any]) -> bool:
    return "cursor" in parameters


def list_commands(takes: Takes, group: Any = None, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The commands with a parameter that satisfies the condition; it receives the types by name."""
    found = []
    for name, inner in (program() if group is None else group).commands.items():
        if inner.callback is not None and takes(get_type_hints(inner.callback)):
            found.append((*way, name))
        if hasattr(inner, "commands"):
            found += list_commands(takes, inner, (*way, name))
    return found


@pytest.fixture
def knowledge(
    seeded: Seeded,
    clean_environment: None,
    restored_logging: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    """The command, on the seeded database."""
    monkeypatch.setenv("DATABASE_URL", seeded.database.service_dsn)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", str(MODEL.dimensions))
    return CommandLine(capsys)


@pytest.fixture
async def entries(seeded: Seeded) -> dict[str, str]:
    """An entry of each tenant that has relations."""
    sql = "select parent_id from entries where tenant_id = $1 and parent_id is not null and source_ids = '{}'"
    async with connected(seeded.database.superuser_dsn) as superuser:
        tenants = {"first": seeded.first, "second": seeded.second}
        return {slug: str(await superuser.fetchval(sql, tenant)) for slug, tenant in tenants.items()}


def test_commands_that_take_an_id_are_found() -> None:
    assert ("related",) in list_commands(takes_id)
    assert list_commands(takes_cursor) == [("search",)], "teach the test below how to get its cursor"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", list_commands(takes_id), ids=" ".join)
def test_command_treats_another_tenants_id_like_an_unknown_one(
    knowledge: CommandLine, entries: dict[str, str], command: tuple[str, ...], form: tuple[str, ...]
) -> None:
    unknown = str(uuid4())
    results = []
    for entry_id in (unknown, entries["second"]):
        extra = ("--yes",) if command == ("erase",) else ()
        found = knowledge(*command, *CHANGES.get(command, ()), entry_id, "--tenant", "first", *extra, *form)
        assert found.status != 2, found.err
        results.append((found.status, found.out.replace(entry_id, "ID"), found.err.replace(entry_id, "ID")))
    assert results[0] == results[1]
    if command in CHANGES:
        return
    own = knowledge(*command, entries["first"], "--tenant", "first", *form)
    assert (own.status, own.out) != results[0][:2]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_search_treats_another_tenants_cursor_like_an_unknown_one(
    knowledge: CommandLine, form: tuple[str, ...]
) -> None:
    search = ("search", "harbour", "--mode", "keyword", "--limit", "1")
    pages = {slug: knowledge(*search, "--tenant", slug, "--json").json for slug in ("first", "second")}
    cursors = {slug: page["metadata"]["next_cursor"] for slug, page in pages.items()}
    unknown = replace_cursor_id(cursors["second"], {pages["second"]["metadata"]["search_id"]})
    results = [
        knowledge(*search, "--tenant", "first", "--cursor", cursor, *form)
        for cursor in (unknown, cursors["second"])
    ]
    assert results[0] == results[1]
    assert results[0].status != 0
    own = knowledge(*search, "--tenant", "first", "--cursor", cursors["first"], *form)
    assert own.status == 0
    assert pages["first"]["results"][0]["id"] not in own.out
