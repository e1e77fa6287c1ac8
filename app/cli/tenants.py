"""`knowledge tenant`: creating, listing and deleting tenants."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.execution import ACTOR, open_directory, read_settings, run_async
from app.cli.options import JsonOption, examples
from app.cli.terminal import print_json
from app.errors import InvalidInput

if TYPE_CHECKING:
    from app.knowledge.tenants import Tenant
    from app.settings import Settings

Slug = Annotated[str, typer.Argument(metavar="SLUG", help="The tenant's short name: a-z, 0-9 and -.")]


def register(app: typer.Typer) -> None:
    """Add the commands `tenant create`, `tenant list` and `tenant delete`."""
    group = typer.Typer(help="Create, list and delete tenants.", no_args_is_help=True, rich_markup_mode=None)
    group.command("create", epilog=examples('knowledge tenant create acme --name "Acme Ltd."'))(create_tenant)
    group.command("list", epilog=examples("knowledge tenant list", "knowledge tenant list --json"))(
        list_tenants
    )
    group.command("delete", epilog=examples("knowledge tenant delete acme --yes"))(delete_tenant)
    app.add_typer(group, name="tenant")


def create_tenant(
    slug: Slug,
    name: Annotated[str | None, typer.Option(help="Its full name; the slug when left out.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a tenant on the configured embedding model."""
    tenant = run_async(_create(read_settings(), slug, name))
    if as_json:
        print_json(tenant)
    else:
        typer.echo(f"created tenant {tenant.slug} ({tenant.id})")


def list_tenants(as_json: JsonOption = False) -> None:
    """List all tenants, oldest first."""
    tenants = run_async(_list(read_settings()))
    if as_json:
        print_json(tenants)
        return
    width = max((len(t.slug) for t in tenants), default=0)
    for tenant in tenants:
        typer.echo(f"{tenant.slug:<{width}}  {tenant.id}  {tenant.created_at:%Y-%m-%d %H:%M}  {tenant.name}")


def delete_tenant(
    slug: Slug,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a tenant with everything that it holds. This cannot be undone."""
    settings = read_settings()
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput.of("--yes", "is needed where nobody can be asked")
        typer.confirm(f"Delete tenant {slug} with all its entries and assets?", abort=True, err=True)
    tenant = run_async(_delete(settings, slug))
    if as_json:
        print_json({"deleted": tenant})
    else:
        typer.echo(f"deleted tenant {tenant.slug}")


async def _create(settings: Settings, slug: str, name: str | None) -> Tenant:
    async with open_directory(settings, for_creation=True) as directory:
        return await directory.create(slug, name, actor=ACTOR)


async def _list(settings: Settings) -> Sequence[Tenant]:
    async with open_directory(settings) as directory:
        return await directory.list_tenants()


async def _delete(settings: Settings, slug: str) -> Tenant:
    async with open_directory(settings) as directory:
        tenant = await directory.find(slug)
        await directory.delete(tenant.id, actor=ACTOR)
        return tenant
