"""`knowledge mcp`: offer the MCP tools over stdio."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.auth.principal import Role
from app.cli.execution import ACTOR, open_tenant, read_settings, run_async, working
from app.cli.options import TenantOption, examples
from app.cli.output.text import print_json

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
            "knowledge mcp --tenant demo --config",
        ),
    )(serve)


def serve(
    tenant: TenantOption,
    role: Annotated[
        Literal["reader", "creator", "tenant_admin"], typer.Option(help="The client's role.")
    ] = "reader",
    subject: Annotated[str, typer.Option(metavar="S", help="The client's name in the audit trail.")] = ACTOR,
    config: Annotated[
        bool,
        typer.Option("--config", help="Print a client's configuration with absolute paths, and end."),
    ] = False,
) -> None:
    """Offer a tenant's knowledge as tools of the Model Context Protocol over standard input and output.

    A running service offers the same tools over HTTP at /mcp.
    """
    settings = read_settings()
    if config:
        print_json(_describe_program(settings, tenant, role, subject))
        return
    run_async(_serve(settings, tenant, Role(role), subject))


def _describe_program(settings: Settings, tenant: str, role: str, subject: str) -> dict[str, Any]:
    """The configuration of a client, which starts the program in another folder and with another environment."""
    arguments = ["mcp", "--tenant", tenant, "--role", role]
    if subject != ACTOR:
        arguments += ["--subject", subject]
    model = settings.embedding
    given = {
        "KB_DATA_DIR": str(settings.database.data_dir.absolute()) if settings.database.embedded else None,
        "EMBEDDING_PROVIDER": model.provider,
        "EMBEDDING_MODEL": model.model,
        "EMBEDDING_DIMENSIONS": None if model.dimensions is None else str(model.dimensions),
    }
    secret = [
        *(["DATABASE_URL"] if not settings.database.embedded else []),
        *(["OPENAI_API_KEY"] if model.provider == "openai" else []),
        *(["GEMINI_API_KEY"] if model.provider == "gemini" else []),
    ]
    if secret:
        typer.echo(f"add to env, which must not be shared then: {', '.join(secret)}", err=True)
    program = {
        "command": _find_program(),
        "args": arguments,
        "env": {name: value for name, value in given.items() if value is not None},
    }
    return {"mcpServers": {f"knowledge-{tenant}": program}}


def _find_program() -> str:
    """The path of this command: as it was called, else the one next to this Python."""
    called = shutil.which(sys.argv[0])
    if called is not None and Path(called).stem == "knowledge":
        return os.path.abspath(called)
    return str(Path(sys.executable).parent / "knowledge")


async def _serve(settings: Settings, slug: str, role: Role, subject: str) -> None:
    from app.mcp.links import Links
    from app.mcp.stdio import serve_stdio

    links = Links(settings.server.public_url)
    async with open_tenant(settings, slug) as (services, tenant):
        if role is Role.READER or not settings.ingestion.worker:
            await serve_stdio(services, tenant.id, role, subject, links)
            return
        async with working(services):
            await serve_stdio(services, tenant.id, role, subject, links)
