"""`knowledge mcp`: offer the MCP tools over stdio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.auth.principal import Role
from app.cli.execution import ACTOR, open_tenant, read_settings, run_async, working
from app.cli.options import TenantOption, examples

if TYPE_CHECKING:
    from app.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command `mcp`."""
    app.command(
        "mcp",
        short_help="Offer a tenant's knowledge as MCP tools over stdio.",
        epilog=examples(
            "knowledge mcp --tenant demo",
            "knowledge mcp --tenant demo --role creator --subject jane",
            "claude mcp add kb -- knowledge mcp --tenant demo",
        ),
    )(serve)


def serve(
    tenant: TenantOption,
    role: Annotated[
        Literal["reader", "creator", "tenant_admin"], typer.Option(help="The client's role.")
    ] = "reader",
    subject: Annotated[str, typer.Option(metavar="S", help="The client's name in the audit trail.")] = ACTOR,
) -> None:
    """Offer a tenant's knowledge as tools of the Model Context Protocol over standard input and output.

    A running service offers the same tools over HTTP at /mcp.
    """
    run_async(_serve(read_settings(), tenant, Role(role), subject))


async def _serve(settings: Settings, slug: str, role: Role, subject: str) -> None:
    from app.mcp.stdio import serve_stdio

    async with open_tenant(settings, slug) as (services, tenant):
        if role is Role.READER or not settings.ingestion.worker:
            await serve_stdio(services, tenant.id, role, subject)
            return
        async with working(services):
            await serve_stdio(services, tenant.id, role, subject)
