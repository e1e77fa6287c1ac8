"""`knowledge tenant` and `nodes`: create, list, limit, move and delete tenants, and list the nodes of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.doctor.finding import count, size
from app.cli.door import Door, open_door
from app.cli.execution import (
    Commands,
    choose_platform,
    complete_tenant,
    confirm,
    find_remote,
    json_option,
    open_tenants,
    program,
    read_settings,
    run_async,
    split_assignment,
)
from app.cli.output.text import print_json, print_table, remark
from app.contract.vocabulary import COMMAND_LINE
from app.errors import InvalidInput, TenantNotFound
from knowledge_client import administration

if TYPE_CHECKING:
    from app.contract.administration import PlatformLimits
    from app.knowledge.administration.cluster import Node, Shard, TenantMove
    from app.settings import Settings

NewSlug = Annotated[str, typer.Argument(metavar="SLUG", help="The tenant's short name: a-z, 0-9 and -.")]
Slug = Annotated[str, typer.Argument(metavar="SLUG", help="The tenant's short name.", autocompletion=complete_tenant)]

LAST_PORT = 65535
TENANTS = "/admin/tenants"
WORDS: Mapping[str, int | None] = {"none": 0, "default": None}

group = Commands(
    "tenant", "Create, list, limit, move and delete tenants.", "knowledge tenant create acme", "knowledge tenant list"
)


@group.add('knowledge tenant create acme --name "Acme Ltd."', name="create")
def create_tenant(
    slug: NewSlug,
    name: Annotated[str | None, typer.Option(help="The full name; default: the slug.")] = None,
    as_json: Annotated[bool, json_option("{id, slug, name, created_at}")] = False,
) -> None:
    """Create a tenant with the configured embedding model."""
    with open_door(choose_platform(), doing="creating the tenant", creates=True) as door:
        tenant = door.run(administration.create_tenant(slug, name=name))
    if as_json:
        print_json(door.answer)
    else:
        typer.echo(f"created tenant {tenant.slug} ({tenant.id})")


@group.add("knowledge tenant list", "knowledge tenant list --json", name="list")
def list_tenants(as_json: Annotated[bool, json_option("a list of {id, slug, name, created_at}")] = False) -> None:
    """List all tenants, oldest first."""
    with _open_platform("reading the tenants") as door:
        tenants = door.read_all(TENANTS)
    if as_json:
        print_json(tenants)
        return
    if not tenants:
        remark("there is no tenant yet; create one: knowledge tenant create SLUG")
        return
    rows = [(t["slug"], t["id"], t["created_at"][:16].replace("T", " "), t["name"]) for t in tenants]
    print_table(("slug", "id", "created", "name"), rows)


@group.add(
    "knowledge tenant limits acme",
    "knowledge tenant limits acme --set entries=100000 --set bytes=none",
    "knowledge tenant limits acme --set entries=default",
    name="limits",
    short_help="Show or change the limits of a tenant.",
)
def limit_tenant(
    slug: Slug,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A number, `none`, or `default`; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool, json_option("{id, slug, limits: {NAME: {allowed, default, own, used}}}; allowed: null means unlimited")
    ] = False,
) -> None:
    """Show or change the limits of a tenant.

    `default` is the value of KB_LIMIT_*; `own` is set by the tenant's own admin and applies if it is lower. Requests
    and concurrent searches are counted in each instance of the service, not here.
    """
    found = run_async(_limit(read_settings(), slug, _read_changes(changes or [])))
    if as_json:
        print_json(found)
        return
    print_table(
        ("limit", "allowed", "default", "own", "used"),
        [(name, *("-" if v is None else f"{v:,}" for v in astuple(found.limits[name]))) for name in found.limits],
        right=("allowed", "default", "own", "used"),
    )


@group.add(
    "knowledge tenant move acme --to worker-2:5432",
    "knowledge tenant move acme --to worker-3:5432 --alone",
    name="move",
    short_help="Move a tenant to another node of a Citus cluster.",
)
def move_tenant(
    slug: Slug,
    to: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The node, as `knowledge nodes` lists it.", show_default=False)
    ],
    alone: Annotated[
        bool, typer.Option("--alone", help="Give the tenant a shard of its own first, so that no other tenant moves.")
    ] = False,
    block_writes: Annotated[
        bool,
        typer.Option(
            "--block-writes",
            help="Let writes and searches wait for the whole copy, if the cluster cannot replicate logically.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "{id, slug, shard, source, target, tenants, isolated, bytes, seconds, held_seconds}; "
            "tenants: all in the shard"
        ),
    ] = False,
) -> None:
    """Move the shard of a tenant, with all tenants in it, to another node, while the service runs.

    Reads DATABASE_ADMIN_URL, here of a superuser on the coordinator: Citus copies the rows that the role sees. It
    replicates the shard logically; its tenants are searched and written in the meantime, and their writes wait only for
    the last moment of the copy.
    """
    host, port = _read_node(to)
    done = run_async(
        _move(read_settings(), slug, host, port, alone=alone, blocks=block_writes), doing=f"moving {slug} to {to}"
    )
    if as_json:
        print_json(done)
        return
    typer.echo(_describe_move(done))


@group.add(
    "knowledge tenant delete acme --yes", name="delete", short_help="Delete a tenant with everything that it holds."
)
def delete_tenant(
    slug: Slug,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, json_option("{deleted: {id, slug, name, created_at}}")] = False,
) -> None:
    """Delete a tenant and all its data. This cannot be undone."""
    remote = find_remote()
    at = "" if remote is None else f" at {remote.url}"
    confirm(f"Delete tenant {slug} with all its entries and assets{at}?", yes=yes)
    with _open_platform(f"deleting tenant {slug}") as door:
        tenant = next((each for each in door.read_all(TENANTS, looks_only=True) if each["slug"] == slug), None)
        if tenant is None:
            raise TenantNotFound.of(slug)
        door.run(administration.delete_tenant(tenant["id"]))
    if as_json:
        print_json({"deleted": tenant})
    else:
        typer.echo(f"deleted tenant {slug}")


def _open_platform(doing: str) -> AbstractContextManager[Door]:
    return open_door(choose_platform(), doing=doing, platform=True)


def _read_node(given: str) -> tuple[str, int]:
    """Parse `host:port`; an IPv6 address may have its brackets. Raises InvalidInput."""
    host, _, port = given.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > LAST_PORT:
        raise InvalidInput.of("--to", f"{given!r} does not have the form HOST:PORT")
    return host.strip("[]"), int(port)


def _describe_move(done: TenantMove) -> str:
    shard = f"shard {done.shard}" if done.bytes is None else f"shard {done.shard}, {size(done.bytes)}"
    others = f" and {count(done.tenants - 1, 'other tenant')}" if done.tenants > 1 else ""
    held = "" if done.held_seconds is None else f"; writes waited at most {done.held_seconds:.2f} s"
    if done.source == done.target:
        what = f"gave tenant {done.slug} a shard of its own ({shard}) on {done.target}"
    else:
        what = f"moved tenant {done.slug}{others} ({shard}) from {done.source} to {done.target}"
    return f"{what} in {done.seconds:.1f} s{held}"


async def _move(settings: Settings, slug: str, host: str, port: int, *, alone: bool, blocks: bool) -> TenantMove:
    from app.composition.database import open_cluster

    async with open_cluster(settings, for_moves=True) as cluster:
        return await cluster.move(
            slug, host, port, alone=alone, mode="block_writes" if blocks else "force_logical", actor=COMMAND_LINE
        )


def _read_changes(given: Iterable[str]) -> dict[str, int | None]:
    """Parse `name=value` into the limits of a TenantPatch. Raises InvalidInput."""
    changes: dict[str, int | None] = {}
    for text in given:
        name, value = split_assignment("--set", text)
        if value in WORDS:
            changes[name] = WORDS[value]
            continue
        try:
            changes[name] = int(value)
        except ValueError:
            raise InvalidInput.of(f"limits.{name}", "must be an integer, none or default") from None
    return changes


async def _limit(settings: Settings, slug: str, changes: Mapping[str, int | None]) -> PlatformLimits:
    """Apply the changes, if any, and read the limits in force. Raises InvalidInput, TenantNotFound."""
    from app.contract.administration import PlatformLimits
    from app.contract.settings import TenantPatch
    from app.contract.validation import validate

    async with open_tenants(settings) as platform:
        tenant = await platform.tenants.find(slug)
        if changes:
            patch = validate(TenantPatch, {"limits": changes})
            await platform.tenants.change_limits(tenant.id, patch.limits, actor=COMMAND_LINE)
        limits = await platform.platform.limits(tenant.id, reader=None if changes else COMMAND_LINE)
    return PlatformLimits(tenant.id, tenant.slug, limits)


ABSENT = "-"
"""Shown instead of a number that a node did not report."""


@program.add("knowledge nodes", "knowledge nodes --shards --json")
def nodes(
    shards: Annotated[bool, typer.Option("--shards", help="List the shards instead, the largest first.")] = False,
    as_json: Annotated[
        bool,
        json_option(
            "a list of {host, port, role, shards, tenants, bytes, connections, most_connections}, or with --shards of "
            "{shard, host, port, tenants, bytes}; null: a node does not answer"
        ),
    ] = False,
) -> None:
    """List the nodes of a Citus cluster, with their load and size.

    Reads DATABASE_ADMIN_URL, which leads to the coordinator. A shard holds all rows of some tenants, and moves as one;
    its number is that of its shard of the table `tenants`. Connections are those in use, of the most that the server
    allows.
    """
    settings = read_settings()
    if shards:
        _print_shards(run_async(_read_shards(settings), doing="asking the nodes"), as_json=as_json)
    else:
        _print_nodes(run_async(_read_nodes(settings), doing="asking the nodes"), as_json=as_json)


def _print_nodes(found: Sequence[Node], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (
            f"{node.host}:{node.port}",
            node.role,
            node.shards,
            _write_number(node.tenants),
            _write_size(node.bytes),
            ABSENT if node.connections is None else f"{node.connections} of {node.most_connections}",
        )
        for node in found
    ]
    numbers = ("shards", "tenants", "size", "connections")
    print_table(("node", "role", *numbers), rows, right=numbers)


def _print_shards(found: Sequence[Shard], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (shard.shard, f"{shard.host}:{shard.port}", _write_number(shard.tenants), _write_size(shard.bytes))
        for shard in found
    ]
    print_table(("shard", "node", "tenants", "size"), rows, right=("tenants", "size"))


def _write_number(number: int | None) -> str:
    return ABSENT if number is None else f"{number:,}"


def _write_size(number: int | None) -> str:
    return ABSENT if number is None else size(number)


async def _read_nodes(settings: Settings) -> Sequence[Node]:
    from app.composition.database import open_cluster

    async with open_cluster(settings) as cluster:
        return await cluster.nodes()


async def _read_shards(settings: Settings) -> Sequence[Shard]:
    from app.composition.database import open_cluster

    async with open_cluster(settings) as cluster:
        return await cluster.shards()
