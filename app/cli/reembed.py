"""`knowledge reembed`: move a tenant to another embedding model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from app.cli.execution import ACTOR, open_tenant, read_settings, run_async, working
from app.cli.options import TenantOption, examples, json_option
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, remark
from app.errors import InvalidInput, ModelChangeNotFound

if TYPE_CHECKING:
    from app.composition.services import Services
    from app.knowledge.reembedding.change import ModelChange
    from app.settings import Settings

Action = Literal["start", "status", "switch", "back", "end"]
POLL_SECONDS = 0.25


def register(app: typer.Typer) -> None:
    """Add the command `reembed`."""
    app.command(
        short_help="Move a tenant to another embedding model.",
        epilog=examples(
            "knowledge reembed --tenant demo",
            "knowledge reembed --tenant demo --rate 600 --by-hand",
            "knowledge reembed switch --tenant demo",
            "knowledge reembed back --tenant demo",
            "knowledge reembed end --tenant demo",
        ),
    )(reembed)


def reembed(
    tenant: TenantOption,
    action: Annotated[
        Action, typer.Argument(help="What to do; by default start or resume, and wait until it is done.")
    ] = "start",
    rate: Annotated[
        int | None, typer.Option(min=1, help="Entries to embed per minute.", show_default="unlimited")
    ] = None,
    switch_at: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Switch only if this fraction of the first ten hits stays the same; otherwise wait.",
        ),
    ] = 0.0,
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="Do not switch; use `knowledge reembed switch`.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option("{state, progress, old, new, entries, comparison, …}; {state: ended} once it is over"),
    ] = False,
) -> None:
    """Move a tenant to the other one of the models of EMBEDDING_* and EMBEDDING_NEXT_*.

    Set EMBEDDING_NEXT_* for every process of the service, run `knowledge model add --next`, then this command. The new
    model's vectors are created while searches use the old ones. Both are compared on the tenant's own queries, then the
    tenant is switched. After Ctrl-C the work continues in the service; run this command again to watch it.
    `back` switches to the old model, as long as its vectors are kept; `end` removes the vectors not in use.
    """
    settings = read_settings()
    if action != "start" and (rate is not None or switch_at or by_hand):
        raise InvalidInput.of("--rate, --switch-at, --by-hand", "are allowed for start only")
    change = run_async(_act(settings, tenant, action, rate, None if by_hand else switch_at))
    if as_json:
        print_json({"state": "ended"} if change is None else change)
    else:
        for line in describe_change(tenant, change):
            typer.echo(line)


def describe_change(tenant: str, change: ModelChange | None) -> list[str]:
    """Describe a change in a few lines."""
    if change is None:
        return [f"tenant {tenant}: the unused vectors have been removed"]
    old, new = (f"{m.provider}/{m.name} ({m.dimensions})" for m in (change.old, change.new))
    lines = [
        f"tenant {tenant}, {old} to {new}: {change.state}, {change.progress:.0%} of {change.entries} entries"
    ]
    if change.refused:
        lines.append(f"{change.refused} entries have no vector because the provider refuses them")
    if not change.served:
        lines.append(
            "this service has no provider for the model that is not in use: set EMBEDDING_NEXT_PROVIDER"
        )
    if (found := change.comparison) is not None:
        source = "queries of the tenant" if found.source == "queries" else "titles of its entries"
        lines.append(
            f"compared on {found.queries} {source}: {found.overlap:.0%} of the first ten hits are the same,"
            f" {found.semantic_overlap:.0%} with semantic search only"
        )
        if found.judged:
            lines.append(
                f"feedback on {found.judged} queries: nDCG@10 {found.ndcg_old:.3f} with the old model,"
                f" {found.ndcg_new:.3f} with the new one"
            )
    if change.state == "ready":
        lines.append(f"to switch: knowledge reembed switch --tenant {tenant}")
    if change.state == "switched":
        lines.append(
            f"the old vectors are kept; to go back: knowledge reembed back --tenant {tenant};"
            f" to remove them: knowledge reembed end --tenant {tenant}"
        )
    return lines


async def _act(
    settings: Settings, slug: str, action: Action, rate: int | None, switch_at: float | None
) -> ModelChange | None:
    async with open_tenant(settings, slug) as (services, tenant):
        service = services.reembedding
        match action:
            case "status":
                return await service.status(tenant.id, reader=ACTOR)
            case "switch" | "back":
                return await service.switch(tenant.id, back=action == "back", actor=ACTOR)
            case "end":
                await service.end(tenant.id, actor=ACTOR)
            case _:
                await service.start(tenant.id, rate=rate, switch_at_overlap=switch_at, actor=ACTOR)
        async with working(services):
            return await _watch(services, tenant.id)


async def _watch(services: Services, tenant_id: UUID) -> ModelChange | None:
    """Wait until the change needs a decision; None when it has ended."""
    told = False
    try:
        change = await services.reembedding.status(tenant_id)
        with show_progress("entries", change.entries) as report:
            while not change.rests:
                await asyncio.sleep(POLL_SECONDS)
                change = await services.reembedding.status(tenant_id)
                report(min(change.entries, round(change.progress * change.entries)))
                if not change.served and not told and change.state == "filling":
                    told = True
                    remark("this process has no provider for the new model; another process may have one")
    except ModelChangeNotFound:
        return None
    return change
