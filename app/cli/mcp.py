"""`knowledge mcp`: offer the MCP tools over stdio."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import SecretStr

from app.auth.principal import Principal, Role, check_groups
from app.cli.execution import TenantOption, asks_for_all, named_env_file, open_tenant, program, read_settings, run_async
from app.cli.output.text import print_json, remark
from app.cli.place import list_slugs
from app.contract.vocabulary import COMMAND_LINE
from app.errors import ConfigurationError, TenantNotFound

if TYPE_CHECKING:
    from app.settings import Settings


SERVED = frozenset({"jwt", "oidc", "server"})
"""Groups of settings of a service with callers over HTTP."""


@program.add(
    "knowledge mcp --tenant demo",
    "knowledge mcp --tenant demo --role creator --subject jane",
    "claude mcp add kb -- knowledge mcp --tenant demo",
    "knowledge mcp --tenant demo --config",
    name="mcp",
)
def serve(
    tenant: TenantOption,
    role: Annotated[Literal["reader", "creator", "tenant_admin"], typer.Option(help="The client's role.")] = "reader",
    subject: Annotated[str, typer.Option(metavar="S", help="The client's name in the audit trail.")] = COMMAND_LINE,
    groups: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="A group of the client; may be repeated.")
    ] = None,
    config: Annotated[
        bool, typer.Option("--config", help="Print a client's configuration with absolute paths, and end.")
    ] = False,
) -> None:
    """Offer a tenant's knowledge as tools of the Model Context Protocol over standard input and output.

    The client reads what --subject and --group may read; with KB_ACCESS=all, a tenant_admin sees all of the tenant. A
    running service offers the same tools over HTTP at /mcp.
    """
    named = check_groups(groups or (), "--group")
    sees_all = asks_for_all()
    if sees_all and role != "tenant_admin":
        raise ConfigurationError("KB_ACCESS", f"cannot be all for the role {role}", "use --role tenant_admin")
    settings = read_settings()
    if config:
        _check_tenant(settings, tenant)
        print_json(_describe_program(settings, tenant, role, subject, named))
        return
    run_async(_serve(settings, tenant, Role(role), subject, named, sees_all))


def _check_tenant(settings: Settings, slug: str) -> None:
    """Raise TenantNotFound, or say that no database could tell."""
    slugs = list_slugs(settings)
    if slugs is None:
        remark(f"note: whether there is a tenant {slug!r} was not checked, because no database answers")
    elif slug not in slugs:
        raise TenantNotFound.of(slug)


def _describe_program(
    settings: Settings, tenant: str, role: str, subject: str, groups: tuple[str, ...]
) -> dict[str, Any]:
    """The configuration of a client, which starts the program in another folder and with another environment.

    It has the settings of the environment; those of a file stay there, and the program reads it.
    """
    file = named_env_file.get()
    arguments = ["mcp", "--tenant", tenant, "--role", role]
    if file is not None:
        arguments = ["--env-file", str(file.absolute()), *arguments]
    if subject != COMMAND_LINE:
        arguments += ["--subject", subject]
    arguments += [part for group in groups for part in ("--group", group)]
    given: dict[str, str] = {"EMBEDDING_PROVIDER": settings.embedding.provider}
    if settings.database.embedded:
        given = {"KB_DATA_DIR": str(settings.database.data_dir.absolute()), **given}
    if access := os.environ.get("KB_ACCESS", "").strip():
        given["KB_ACCESS"] = access
    secret = []
    for name, value in _used_settings(settings):
        if not os.environ.get(name, "").strip():
            continue
        if _is_secret(value):
            secret.append(name)
        else:
            given.setdefault(name, os.environ[name].strip())
    if secret:
        typer.echo(f"add to env, which must not be shared then: {', '.join(secret)}", err=True)
    program = {"command": _find_program(), "args": arguments, "env": given}
    return {"mcpServers": {f"knowledge-{tenant}": program}}


def _used_settings(settings: Settings) -> Iterator[tuple[str, object]]:
    """The names and values of the settings that the program uses."""
    for group_name, group in settings:
        for field, info in type(group).model_fields.items():
            name = str(info.validation_alias)
            if name in ("KB_PUBLIC_URL", "KB_MCP_TOOLS") or not (group_name in SERVED or name == "DATABASE_ADMIN_URL"):
                yield name, getattr(group, field)


def _is_secret(value: object) -> bool:
    return isinstance(value[0] if isinstance(value, tuple) and value else value, SecretStr)


def _find_program() -> str:
    """The path of this command: as it was called, or else next to this Python."""
    called = shutil.which(sys.argv[0])
    if called is not None and Path(called).stem == "knowledge":
        return os.path.abspath(called)
    return str(Path(sys.executable).parent / "knowledge")


async def _serve(
    settings: Settings, slug: str, role: Role, subject: str, groups: tuple[str, ...], sees_all: bool
) -> None:
    from app.composition.services import working
    from app.mcp.answers.passages import Links
    from app.mcp.stdio import serve_stdio

    links = Links(settings.server.public_url)
    async with open_tenant(settings, slug) as (services, tenant):
        principal = Principal(subject, tenant.id, frozenset({role}), groups=groups)
        works = role is not Role.READER and settings.ingestion.worker
        async with working(services) if works else contextlib.nullcontext():
            await serve_stdio(services, principal, links, settings.server.mcp_tools, sees_all=sees_all)
