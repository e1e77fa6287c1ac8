"""`knowledge subscription`: list the webhook subscriptions of a tenant."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.execution import (
    ACTOR,
    Local,
    Target,
    TenantOption,
    choose_target,
    command_group,
    examples,
    json_option,
    open_tenants,
    run_async,
)
from app.cli.output.tables import print_table
from app.cli.output.text import print_json

if TYPE_CHECKING:
    from app.settings import Settings

COLUMNS = ("name", "owner", "host", "state", "confirmation", "waiting", "last_error")


def register(app: typer.Typer) -> None:
    """Add the command `subscription list`."""
    group = command_group("List webhook subscriptions.", "knowledge subscription list --tenant demo")
    group.command("list", epilog=examples("knowledge subscription list --tenant demo"))(list_subscriptions)
    app.add_typer(group, name="subscription")


def list_subscriptions(
    tenant: TenantOption,
    as_json: Annotated[
        bool,
        json_option(
            "a list of {saved_search_id, name, owner, host, state, confirmation, confirmed_at, waiting, failures,"
            " last_error, …}"
        ),
    ] = False,
) -> None:
    """List the subscriptions of a tenant, newest first, and whether their endpoints have agreed."""
    found = run_async(_list(choose_target(tenant)), doing="reading the subscriptions")
    if as_json:
        print_json(found)
        return
    rows = [["" if row[name] is None else row[name] for name in COLUMNS] for row in found]
    print_table([name.replace("_", " ") for name in COLUMNS], rows, right=("waiting",))


async def _list(target: Target) -> list[dict[str, Any]]:
    if isinstance(target, Local):
        rows = await _read(target.settings, target.slug)
    else:
        from app.cli.remote.knowledge import open_remote

        async with open_remote(target) as knowledge:
            rows = await knowledge.administration.subscriptions()
    for row in rows:
        row.pop("secret", None)
        row["host"] = row.pop("url")
    return rows


async def _read(settings: Settings, slug: str) -> list[dict[str, Any]]:
    # Not part of the platform, since the libraries of webhooks would delay every other command of it.
    from app.knowledge.audit import AuditTrail
    from app.knowledge.paging import MAX_PAGE
    from app.knowledge.queue import JobQueue
    from app.knowledge.subscriptions.service import SubscriptionService
    from app.knowledge.subscriptions.webhooks import SecretSealer

    async with open_tenants(settings) as platform:
        database = platform.database
        service = SubscriptionService(database, AuditTrail(database), JobQueue(), SecretSealer())
        tenant = await platform.tenants.find(slug)
        # One page has all of them: a tenant cannot have more.
        page = await service.list_subscriptions(tenant.id, limit=MAX_PAGE, reader=ACTOR)
    return [asdict(subscription) for subscription in page.items]
