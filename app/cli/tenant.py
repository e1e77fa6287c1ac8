"""`knowledge tenant`: create, list and delete tenants, and set their limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.cli.execution import ACTOR, open_tenants, read_settings, run_async
from app.cli.options import command_group, complete_tenant, examples, json_option, split_assignment
from app.cli.output.tables import print_table
from app.cli.output.text import print_json, remark
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.knowledge.administration.platform import LimitUse
    from app.knowledge.tenants.directory import Tenant
    from app.settings import Settings

NewSlug = Annotated[str, typer.Argument(metavar="SLUG", help="The tenant's short name: a-z, 0-9 and -.")]
Slug = Annotated[
    str,
    typer.Argument(metavar="SLUG", help="The tenant's short name.", autocompletion=complete_tenant),
]

WORDS: Mapping[str, int | None] = {"none": 0, "default": None}


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """All limits of one tenant, by name."""

    id: UUID
    slug: str
    limits: Mapping[str, LimitUse]


def register(app: typer.Typer) -> None:
    """Add the commands `tenant create`, `tenant list`, `tenant limits` and `tenant delete`."""
    group = command_group(
        "Create, list, limit and delete tenants.", "knowledge tenant create acme", "knowledge tenant list"
    )
    group.command("create", epilog=examples('knowledge tenant create acme --name "Acme Ltd."'))(create_tenant)
    group.command("list", epilog=examples("knowledge tenant list", "knowledge tenant list --json"))(
        list_tenants
    )
    group.command(
        "limits",
        short_help="Show or change the limits of a tenant.",
        epilog=examples(
            "knowledge tenant limits acme",
            "knowledge tenant limits acme --set entries=100000 --set bytes=none",
            "knowledge tenant limits acme --set entries=default",
        ),
    )(limit_tenant)
    group.command(
        "delete",
        short_help="Delete a tenant with everything that it holds.",
        epilog=examples("knowledge tenant delete acme --yes"),
    )(delete_tenant)
    app.add_typer(group, name="tenant")


def create_tenant(
    slug: NewSlug,
    name: Annotated[str | None, typer.Option(help="The full name; default: the slug.")] = None,
    as_json: Annotated[bool, json_option("{id, slug, name, created_at}")] = False,
) -> None:
    """Create a tenant with the configured embedding model."""
    tenant = run_async(_create(read_settings(), slug, name), doing="creating the tenant")
    if as_json:
        print_json(tenant)
    else:
        typer.echo(f"created tenant {tenant.slug} ({tenant.id})")


def list_tenants(
    as_json: Annotated[bool, json_option("a list of {id, slug, name, created_at}")] = False,
) -> None:
    """List all tenants, oldest first."""
    tenants = run_async(_list(read_settings()), doing="reading the tenants")
    if as_json:
        print_json(tenants)
        return
    if not tenants:
        remark("there is no tenant yet; create one: knowledge tenant create SLUG")
        return
    rows = [(t.slug, t.id, f"{t.created_at:%Y-%m-%d %H:%M}", t.name) for t in tenants]
    print_table(("slug", "id", "created", "name"), rows)


def limit_tenant(
    slug: Slug,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A number, `none`, or `default`; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "{id, slug, limits: {NAME: {allowed, default, own, used}}}; allowed: null means unlimited"
        ),
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
        [
            (name, *("-" if v is None else f"{v:,}" for v in astuple(found.limits[name])))
            for name in found.limits
        ],
        right=("allowed", "default", "own", "used"),
    )


def delete_tenant(
    slug: Slug,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, json_option("{deleted: {id, slug, name, created_at}}")] = False,
) -> None:
    """Delete a tenant and all its data. This cannot be undone."""
    settings = read_settings()
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput.of("--yes", "is required without a terminal")
        typer.confirm(f"Delete tenant {slug} with all its entries and assets?", abort=True, err=True)
    tenant = run_async(_delete(settings, slug), doing=f"deleting tenant {slug}")
    if as_json:
        print_json({"deleted": tenant})
    else:
        typer.echo(f"deleted tenant {tenant.slug}")


async def _create(settings: Settings, slug: str, name: str | None) -> Tenant:
    from app.composition.platform import open_platform

    async with open_platform(settings, for_creation=True) as platform:
        return await platform.tenants.create(slug, name, actor=ACTOR)


async def _list(settings: Settings) -> Sequence[Tenant]:
    async with open_tenants(settings) as platform:
        return await platform.tenants.list_tenants(reader=ACTOR)


async def _delete(settings: Settings, slug: str) -> Tenant:
    async with open_tenants(settings) as platform:
        tenant = await platform.tenants.find(slug)
        await platform.tenants.delete(tenant.id, actor=ACTOR)
        return tenant


def _read_changes(given: Iterable[str]) -> dict[str, int | None]:
    """Parse `name=value` into the changes for `TenantDirectory.change_limits`. Raises InvalidInput."""
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


async def _limit(settings: Settings, slug: str, changes: Mapping[str, int | None]) -> TenantLimits:
    """Apply the changes, if any, and read the limits in force. Raises InvalidInput, TenantNotFound."""
    async with open_tenants(settings) as platform:
        tenant = await platform.tenants.find(slug)
        if changes:
            await platform.tenants.change_limits(tenant.id, changes, actor=ACTOR)
        limits = await platform.service.limits(tenant.id, reader=None if changes else ACTOR)
    return TenantLimits(tenant.id, tenant.slug, limits)
