"""`knowledge token`: create a bearer token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.auth.principal import Role
from app.cli.execution import open_tenants, read_settings, run_async
from app.cli.options import complete_tenant, examples, json_option
from app.cli.output.text import print_json
from app.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from app.settings import Settings

DAY = 24 * 3600
SUBJECT = "token"
"""The default subject; not ACTOR, so that the audit trail can distinguish the bearer from these commands."""


def register(app: typer.Typer) -> None:
    """Add the command `token`."""
    app.command(
        "token",
        short_help="Print a bearer token, and nothing else.",
        epilog=examples(
            "knowledge token --tenant demo --role reader",
            "knowledge token --tenant demo --role creator --subject jane --ttl 3600",
            "knowledge token --role platform_admin",
            "TOKEN=$(knowledge token --tenant demo --role reader)",
        ),
    )(print_token)


def print_token(
    roles: Annotated[list[Role], typer.Option("--role", help="Role of the token; may be repeated.")],
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            "-t",
            metavar="SLUG",
            help="Required for every role except platform_admin.",
            autocompletion=complete_tenant,
        ),
    ] = None,
    subject: Annotated[str, typer.Option(metavar="S", help="The subject (`sub`).")] = SUBJECT,
    ttl: Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Validity in seconds.")] = DAY,
    as_json: Annotated[bool, json_option("{token, subject, tenant_id, roles, ttl}")] = False,
) -> None:
    """Print a bearer token, and nothing else. Requires JWT_SECRET(S), or the secret of the embedded mode."""
    settings = read_settings(identity_required=True)
    if tenant is None and set(roles) != {Role.PLATFORM_ADMIN}:
        raise InvalidInput.of("--tenant", "every role except platform_admin requires one")
    tenant_id = run_async(_find(settings, tenant)) if tenant is not None else None
    token = make_token(settings, tenant_id, roles, subject, ttl)
    if as_json:
        names = sorted(set(roles))
        print_json({"token": token, "subject": subject, "tenant_id": tenant_id, "roles": names, "ttl": ttl})
    else:
        typer.echo(token)


def make_token(settings: Settings, tenant_id: UUID | None, roles: list[Role], subject: str, ttl: int) -> str:
    """Create a token that the service with these settings accepts. Raises ConfigurationError with JWKS."""
    from app.auth.tokens import issue_token
    from app.composition.identity import shared_secrets

    secrets = shared_secrets(settings)
    if secrets is None:
        raise ConfigurationError(
            "JWT_JWKS_URL",
            "tokens come from your identity provider",
            "this command requires JWT_SECRET or JWT_SECRETS",
        )
    kid, secret = secrets.signing
    return issue_token(
        secret,
        kid=kid,
        tenant_id=tenant_id,
        roles=set(roles),
        subject=subject,
        ttl=ttl,
        audience=settings.jwt.audience,
        issuer=settings.jwt.issuer,
    )


async def _find(settings: Settings, slug: str) -> UUID:
    async with open_tenants(settings) as platform:
        return (await platform.tenants.find(slug)).id
