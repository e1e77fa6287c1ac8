"""Every command that takes an id or a cursor, called with another tenant's."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, get_args, get_type_hints
from uuid import UUID, uuid4

import pytest

from app.cli.main import command as program
from tests.cli.conftest import CommandLine, Result, clean_environment, leave_out_checks
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.database.seeded import Seeded
from tests.fixtures.logs import restored_logging
from tests.isolation.holdings import replace_cursor_id, snapshot

__all__ = ["clean_environment"]


Spot = tuple[tuple[str, ...], str]
"""A command, and the name of one of its parameters."""

ENTRY, ASSET, NAME = "ENTRY", "ASSET", "NAME"
"""What stands for the id of an entry, the id of an asset, and the external id of an entry."""

CALLS: Mapping[Spot, tuple[tuple[str, ...], ...]] = {
    (("search",), "asset_id"): (("search", "harbour", "--asset", ASSET),),
    (("why-not",), "asset_id"): (("why-not", ENTRY, "harbour", "--asset", ASSET),),
    (("why-not",), "entry"): (("why-not", ENTRY, "harbour"), ("why-not", NAME, "harbour")),
    (("related",), "entry"): (("related", ENTRY),),
    (("add",), "parent_id"): (("add", "A part of it.", "--parent", ENTRY),),
    (("add",), "source_ids"): (("add", "Derived from it.", "--source-id", ENTRY),),
    (("add",), "superseded_by_id"): (("add", "Replaced by it.", "--superseded-by", ENTRY),),
    (("get",), "entry"): (
        *(("get", ENTRY), ("get", NAME), ("get", "--asset", ASSET)),
        *(("get", "--text", ENTRY), ("get", "--text", NAME), ("get", "--asset", "--text", ASSET)),
    ),
    (("list",), "asset"): (("list", "--asset", ASSET),),
    (("edit",), "entry"): (("edit", ENTRY, "--title", "Changed"), ("edit", NAME, "--title", "Changed")),
    (("edit",), "parent_id"): (("edit", "bell", "--parent", ENTRY),),
    (("edit",), "source_ids"): (("edit", "bell", "--source-id", ENTRY),),
    (("edit",), "superseded_by_id"): (("edit", "bell", "--superseded-by", ENTRY),),
    (("delete",), "ids"): (
        *(("delete", "--yes", ENTRY), ("delete", "--yes", NAME), ("delete", "--yes", "--asset", ASSET)),
    ),
    (("erase",), "asset"): (("erase", "--yes", "--asset", ASSET),),
    (("erase",), "entry"): (("erase", "--yes", "--entry", ENTRY),),
    (("access", "show"), "item"): (("access", "show", ENTRY), ("access", "show", ASSET)),
    (("access", "grant"), "ids"): (
        ("access", "grant", "group:harbour", "--id", ENTRY),
        ("access", "grant", "group:harbour", "--write", "--id", ASSET),
    ),
    (("access", "revoke"), "ids"): (("access", "revoke", "group:harbour", "--id", ENTRY),),
    (("access", "set"), "ids"): (
        ("access", "set", "group:harbour", "--id", ENTRY),
        ("access", "set", "group:harbour", "--id", ASSET),
    ),
    (("key", "revoke"), "key_id"): (("key", "revoke", ENTRY),),
    (("quarantine", "release"), "ids"): (("quarantine", "release", ENTRY), ("quarantine", "release", "--asset", ASSET)),
}
"""The calls of each command for each of its parameters that takes an id."""

FORMS: tuple[tuple[str, ...], ...] = ((), ("--json",))
CASES = [
    pytest.param(call, form, marks=[pytest.mark.slow] if form and call[0] != "get" else [])
    for calls in CALLS.values()
    for call in calls
    for form in FORMS
    if not (form and ("--text" in call or call[0] == "key"))
]
"""Each call as text and as JSON; `--text` is not allowed with `--json`, and revoking a key answers nothing."""

DESTRUCTIVE = ("access", "delete", "erase", "key", "quarantine")
"""Commands that are not run with an id of their own tenant: later tests need what they remove."""

CHANGING = re.compile(r'("[a-z_]+_ms": ?)\d+|("search_id": ?)"[^"]+"|( hits in )\d+ ms.*')
"""What differs between two answers to the same search."""


def takes_id(name: str, kind: Any, metavar: str) -> bool:
    """Whether a parameter takes ids; a text that may also be an external id says so in its help."""
    return kind is UUID or any(takes_id(name, k, "") for k in get_args(kind)) or metavar in ("ID", "ID...")


def takes_cursor(name: str, kind: Any, metavar: str) -> bool:
    return name == "cursor"


def list_spots(takes: Callable[[str, Any, str], bool], group: Any = None, way: tuple[str, ...] = ()) -> Iterator[Spot]:
    """The parameters of commands that satisfy the condition."""
    for name, inner in (program() if group is None else group).commands.items():
        kinds = {} if inner.callback is None else get_type_hints(inner.callback)
        for parameter in inner.params:
            if takes(parameter.name, kinds.get(parameter.name), parameter.metavar or ""):
                yield (*way, name), parameter.name
        if hasattr(inner, "commands"):
            yield from list_spots(takes, inner, (*way, name))


@pytest.fixture
def knowledge(
    seeded: Seeded, clean_environment: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """The command, on the seeded database."""
    monkeypatch.setenv("DATABASE_URL", seeded.database.service_dsn)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", str(MODEL.dimensions))
    leave_out_checks(monkeypatch)
    with restored_logging():
        yield CommandLine(capsys)


@pytest.fixture
async def held(seeded: Seeded) -> dict[str, dict[str, str]]:
    """An entry of each tenant that has relations, its external id, which differs, and an asset with chunks.

    Another entry of each tenant has the external id `bell`.
    """
    found = {}
    rename = """update entries set external_id = $3 where tenant_id = $1 and content like $2
                   and external_id is distinct from $3"""
    async with connected(seeded.database.superuser_dsn) as superuser:
        for slug, tenant in {"first": seeded.first, "second": seeded.second}.items():
            await superuser.execute(rename, tenant, "Ships wait%", f"ships of {slug}")
            await superuser.execute(rename, tenant, "The harbour bell%", "bell")
            sql = "select parent_id from entries where tenant_id = $1 and external_id = 'bell'"
            entry = await superuser.fetchval(sql, tenant)
            sql = "select asset_id from entries where tenant_id = $1 and asset_id is not null limit 1"
            asset = await superuser.fetchval(sql, tenant)
            found[slug] = {ENTRY: str(entry), ASSET: str(asset), NAME: f"ships of {slug}"}
    return found


@pytest.fixture
async def unchanged(seeded: Seeded, held: dict[str, dict[str, str]]) -> AsyncIterator[None]:
    """Checks after the test that the second tenant's data are as before."""
    async with connected(seeded.database.superuser_dsn) as superuser:
        before = await snapshot(superuser, seeded.second)
        yield
        assert await snapshot(superuser, seeded.second) == before


def run(knowledge: CommandLine, call: tuple[str, ...], ids: Mapping[str, str], form: tuple[str, ...]) -> Result:
    """The result of a call by the first tenant, without the ids and the times that it took."""
    found = knowledge(*(ids.get(part, part) for part in call), "--tenant", "first", *form)
    assert found.status != 2, found.err
    texts = []
    for text in (found.out, found.err):
        for kind, given in ids.items():
            text = text.replace(given, kind)
        texts.append(CHANGING.sub(r"\1\2\3N", text))
    return Result(found.status, *texts)


def test_every_parameter_that_takes_an_id_has_a_call() -> None:
    assert set(list_spots(takes_id)) == set(CALLS)
    cursors = [(("search",), "cursor"), (("list",), "cursor")]
    assert list(list_spots(takes_cursor)) == cursors, "teach the tests below how to get its cursor"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("call", "form"), CASES, ids=lambda words: " ".join(words) or "text")
def test_command_treats_another_tenants_id_like_an_unknown_one(
    knowledge: CommandLine,
    held: dict[str, dict[str, str]],
    unchanged: None,
    call: tuple[str, ...],
    form: tuple[str, ...],
) -> None:
    unknown = {ENTRY: str(uuid4()), ASSET: str(uuid4()), NAME: "ships of none"}
    result = run(knowledge, call, unknown, form)
    assert run(knowledge, call, held["second"], form) == result
    if call[0] not in DESTRUCTIVE:
        own = run(knowledge, call, held["first"], form)
        assert own.status == 0, own.err
        assert own != result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_search_treats_another_tenants_cursor_like_an_unknown_one(
    knowledge: CommandLine, form: tuple[str, ...]
) -> None:
    search = ("search", "harbour", "--mode", "keyword", "--limit", "1")
    pages = {slug: knowledge(*search, "--tenant", slug, "--json").json for slug in ("first", "second")}
    cursors = {slug: page["metadata"]["next_cursor"] for slug, page in pages.items()}
    unknown = replace_cursor_id(cursors["second"], {pages["second"]["metadata"]["search_id"]})
    results = [
        knowledge(*search, "--tenant", "first", "--cursor", cursor, *form) for cursor in (unknown, cursors["second"])
    ]
    assert results[0] == results[1]
    assert results[0].status != 0
    own = knowledge(*search, "--tenant", "first", "--cursor", cursors["first"], *form)
    assert own.status == 0
    assert pages["first"]["results"][0]["id"] not in own.out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("what", [(), ("--assets",)], ids=["entries", "assets"])
def test_list_treats_another_tenants_cursor_like_an_unknown_one(
    knowledge: CommandLine, what: tuple[str, ...], form: tuple[str, ...]
) -> None:
    """A cursor of a list is a position: any time and any id continue the caller's own list."""
    shown = ("list", *what, "--limit", "1")
    pages = {slug: knowledge(*shown, "--tenant", slug, "--json").json for slug in ("first", "second")}
    cursor = pages["second"]["next_cursor"]
    unknown = replace_cursor_id(cursor, {pages["second"]["items"][0]["id"]})
    results = [knowledge(*shown, "--tenant", "first", "--cursor", c, *form) for c in (unknown, cursor)]
    assert results[0] == results[1]
    assert results[0].status == 0
    own = knowledge(*shown, "--tenant", "first", "--cursor", pages["first"]["next_cursor"], *form)
    assert own.status == 0
    assert pages["first"]["items"][0]["id"] not in own.out
