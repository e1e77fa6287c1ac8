"""Every command that takes an id, asked with another tenant's."""

from __future__ import annotations

from typing import get_args, get_type_hints
from uuid import UUID, uuid4

import pytest
import typer

from app.cli.main import app as program
from tests.cli.conftest import CommandLine, clean_environment, restored_logging
from tests.db.cluster import MODEL, connected
from tests.db.conftest import Seeded

__all__ = ["clean_environment", "restored_logging"]


def list_commands(group: typer.Typer = program, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The commands that take an id: all that have a parameter of type UUID."""
    found = []
    for command in group.registered_commands:
        callback = command.callback
        assert callback is not None
        if any(kind is UUID or UUID in get_args(kind) for kind in get_type_hints(callback).values()):
            found.append((*way, command.name or callback.__name__.replace("_", "-")))
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        found += list_commands(inner.typer_instance, (*way, str(inner.name)))
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
    assert ("related",) in list_commands()


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", list_commands(), ids=" ".join)
def test_command_answers_another_tenants_id_like_an_unknown_one(
    knowledge: CommandLine, entries: dict[str, str], command: tuple[str, ...], form: tuple[str, ...]
) -> None:
    unknown = str(uuid4())
    results = []
    for entry_id in (unknown, entries["second"]):
        found = knowledge(*command, entry_id, "--tenant", "first", *form)
        results.append((found.status, found.out.replace(entry_id, "ID"), found.err.replace(entry_id, "ID")))
    assert results[0] == results[1]
    own = knowledge(*command, entries["first"], "--tenant", "first", *form)
    assert (own.status, own.out) != results[0][:2]
