"""`knowledge nodes`: the nodes of a Citus cluster, with their load and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.doctor.finding import size
from app.cli.execution import Commands, json_option, read_settings, run_async
from app.cli.output.text import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.knowledge.administration.cluster import Node, Shard
    from app.settings import Settings

ABSENT = "-"
"""Shown instead of a number that a node did not report."""


program = Commands()


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
