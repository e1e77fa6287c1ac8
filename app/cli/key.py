"""`knowledge key`: create, list and revoke API keys of a tenant."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from app.auth.principal import Role
from app.cli.door import open_door
from app.cli.execution import Commands, TenantOption, choose_target, json_option
from app.cli.output.text import print_json, print_table, remark
from app.errors import InvalidInput
from knowledge_client import administration

group = Commands(
    "key",
    "Create, list and revoke API keys.",
    "KEY=$(knowledge key create nightly-import --role creator --tenant demo)",
    "knowledge key list --tenant demo",
)


@group.add(
    "knowledge key create nightly-import --role creator --tenant demo",
    "knowledge key create reports --role reader --group finance --ttl 7776000 --tenant demo",
    name="create",
    short_help="Create a key and print it, and nothing else.",
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Unique; the key acts as key:NAME.", show_default=False)],
    tenant: TenantOption,
    role: Annotated[Role, typer.Option(help="Role of the key, not platform_admin.")],
    groups: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="A group of the key; may be repeated.")
    ] = None,
    ttl: Annotated[
        int | None, typer.Option(metavar="SECONDS", min=1, max=630_000_000, help="Validity; default: until revoked.")
    ] = None,
    as_json: Annotated[bool, json_option("the key, as in POST /admin/keys")] = False,
) -> None:
    """Create an API key, a bearer token for a program, and print it. It cannot be shown again."""
    if role is Role.PLATFORM_ADMIN:
        raise InvalidInput.of("--role", "must be reader, creator or tenant_admin")
    expires_at = None if ttl is None else datetime.now(UTC) + timedelta(seconds=ttl)
    with open_door(choose_target(tenant), platform=True) as door:
        made = door.run(administration.create_key(name, role=role.value, groups=groups or (), expires_at=expires_at))
        answer = door.read_answer()
    if as_json:
        print_json(answer)
    else:
        typer.echo(made.key)


@group.add("knowledge key list --tenant demo", name="list")
def list_keys(
    tenant: TenantOption, as_json: Annotated[bool, json_option("a list of keys, as in GET /admin/keys")] = False
) -> None:
    """List the API keys of a tenant, newest first, with their last use."""
    with open_door(choose_target(tenant), platform=True) as door:
        found = door.read_all("/admin/keys")
    if as_json:
        print_json(found)
        return
    rows = [
        [
            key["id"],
            key["name"],
            key["role"],
            ", ".join(key["groups"]),
            _show(key["expires_at"], "never"),
            _show(key["last_used_at"], "never"),
        ]
        for key in found
    ]
    print_table(["id", "name", "role", "groups", "expires", "last used"], rows)


@group.add("knowledge key revoke 0198c5a2-6c1e-7d7e-9b3c-0a4f6f2f3b11 --tenant demo", name="revoke")
def revoke(
    key_id: Annotated[UUID, typer.Argument(metavar="ID", help="The key's id, as in the list.", show_default=False)],
    tenant: TenantOption,
) -> None:
    """Revoke an API key; every process of the service refuses it at once."""
    with open_door(choose_target(tenant), platform=True) as door:
        door.run(administration.revoke_key(key_id))
    remark(f"revoked {key_id}")


def _show(moment: str | None, otherwise: str) -> str:
    return otherwise if moment is None else f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}Z"
