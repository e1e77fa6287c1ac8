"""`knowledge token`: create a bearer token."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.auth.principal import Role
from app.cli.door import open_door
from app.cli.execution import (
    Commands,
    Local,
    Target,
    choose_platform,
    choose_target,
    complete_tenant,
    find_remote,
    find_tenant,
    json_option,
    read_settings,
)
from app.cli.output.text import print_json
from app.errors import ConfigurationError, InvalidInput, TenantNotFound
from knowledge_client.models import RevokedToken
from knowledge_client.reading import post

if TYPE_CHECKING:
    from app.settings import Settings

DAY = 24 * 3600
SUBJECT = "token"
"""The default subject; not COMMAND_LINE, so that the audit trail can distinguish the bearer from these commands."""

group = Commands(
    "token",
    None,
    "knowledge token --tenant demo --role reader",
    "knowledge token --tenant demo --role creator --subject jane --ttl 3600",
    "knowledge token --tenant demo --role reader --subject jane --group finance --group board",
    "knowledge token --role platform_admin",
    "TOKEN=$(knowledge token --tenant demo --role reader)",
    short_help="Print a bearer token, and nothing else; or revoke one.",
)


@group.callback(invoke_without_command=True)
def print_token(
    context: typer.Context,
    roles: Annotated[list[Role] | None, typer.Option("--role", help="Role of the token; may be repeated.")] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            "-t",
            metavar="SLUG",
            help="Required for every role except platform_admin; default: KB_TENANT.",
            autocompletion=complete_tenant,
        ),
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="A group of the subject; may be repeated.")
    ] = None,
    subject: Annotated[str, typer.Option(metavar="S", help="The subject (`sub`).")] = SUBJECT,
    ttl: Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Validity in seconds.")] = DAY,
    as_json: Annotated[bool, json_option("{token, token_id, subject, tenant_id, roles, groups, ttl}")] = False,
) -> None:
    """Print a bearer token, and nothing else. Requires JWT_SECRET(S), or the secret of the embedded mode."""
    if context.invoked_subcommand is not None:
        return
    if not roles:
        raise InvalidInput.of("--role", "at least one is required")
    settings = read_settings(identity_required=True)
    if tenant is None and set(roles) != {Role.PLATFORM_ADMIN}:
        tenant = find_tenant() or None
        if tenant is None:
            raise InvalidInput.of("--tenant", "every role except platform_admin requires one, or KB_TENANT")
    tenant_id = None if tenant is None else _find_tenant(settings, tenant)
    token = make_token(settings, tenant_id, roles, subject, ttl, groups or ())
    if as_json:
        from app.auth.issuing import read_token_id

        names = sorted(set(roles))
        claims = {
            "subject": subject,
            "tenant_id": tenant_id,
            "roles": names,
            "groups": sorted(set(groups or ())),
            "ttl": ttl,
        }
        print_json({"token": token, "token_id": read_token_id(token), **claims})
    else:
        typer.echo(token)


def make_token(
    settings: Settings, tenant_id: UUID | None, roles: list[Role], subject: str, ttl: int, groups: Collection[str] = ()
) -> str:
    """Create a token that the service with these settings accepts. Raises ConfigurationError with JWKS."""
    from app.auth.issuing import issue_token
    from app.composition.shared_secrets import shared_secrets

    secrets = shared_secrets(settings)
    if secrets is None:
        raise ConfigurationError(
            "JWT_JWKS_URL", "tokens come from your identity provider", "this command requires JWT_SECRET or JWT_SECRETS"
        )
    kid, secret = secrets.signing
    return issue_token(
        secret,
        kid=kid,
        tenant_id=tenant_id,
        roles=set(roles),
        subject=subject,
        ttl=ttl,
        groups=groups,
        audience=settings.jwt.audience,
        issuer=settings.jwt.issuer,
    )


OptionalTenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        "-t",
        metavar="SLUG",
        help="The tenant of the token; default: KB_TENANT. Omit it with KB_URL.",
        autocompletion=complete_tenant,
    ),
]
OnPlatform = Annotated[bool, typer.Option("--platform", help="Tokens of platform admins.")]


@group.add(
    "knowledge token revoke 3f0e7f2e-5d5c-4f57-9a3c-0c5a1f6c7b11 --tenant demo",
    "knowledge token revoke 3f0e7f2e-5d5c-4f57-9a3c-0c5a1f6c7b11 --platform",
    name="revoke",
    short_help="Refuse a token before it expires.",
)
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="JTI", help="The token's `jti`.", show_default=False)],
    tenant: OptionalTenant = None,
    platform: OnPlatform = False,
    as_json: Annotated[bool, json_option("{token_id, revoked_at, expires_at}")] = False,
) -> None:
    """Refuse a token before it expires; every process of the service does so within two seconds."""
    target, path = _choose(tenant, platform)
    with open_door(target, platform=True) as door:
        revoked = door.run(post(path, {"token_id": token_id}, RevokedToken))
    if as_json:
        print_json(door.answer)
    else:
        typer.echo(f"revoked {revoked.token_id}")


@group.add(
    "knowledge token revoked --tenant demo",
    "knowledge token revoked --platform",
    name="revoked",
    short_help="List revoked tokens.",
)
def list_revoked(
    tenant: OptionalTenant = None,
    platform: OnPlatform = False,
    as_json: Annotated[bool, json_option("[{token_id, revoked_at, expires_at}]")] = False,
) -> None:
    """List the revoked tokens that have not expired, newest first."""
    target, path = _choose(tenant, platform)
    with open_door(target, platform=True) as door:
        found = door.read_all(path)
    if as_json:
        print_json(found)
        return
    for token in found:
        revoked_at = datetime.fromisoformat(token["revoked_at"])
        typer.echo(f"{token['token_id']}  revoked {revoked_at:%Y-%m-%d %H:%M}Z")


def _choose(tenant: str | None, platform: bool) -> tuple[Target, str]:
    """The target of the tokens of a tenant or of platform admins, and their path. Raises InvalidInput."""
    if platform:
        if tenant is not None:
            raise InvalidInput.of("--tenant", "give either a tenant or --platform")
        return choose_platform(), "/admin/platform/revoked-tokens"
    slug = tenant or find_tenant()
    if not slug and find_remote() is None:
        raise InvalidInput.of("--tenant", "give a tenant, KB_TENANT or --platform")
    return choose_target(slug), "/admin/revoked-tokens"


def _find_tenant(settings: Settings, slug: str) -> UUID:
    with open_door(Local(settings, None), platform=True) as door:
        for tenant in door.read_all("/admin/tenants", looks_only=True):
            if tenant["slug"] == slug:
                return UUID(tenant["id"])
    raise TenantNotFound.of(slug)
