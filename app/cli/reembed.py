"""`knowledge reembed`: move a tenant to another embedding model."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from app.cli.execution import (
    ACTOR,
    Local,
    Target,
    TenantOption,
    choose_target,
    examples,
    json_option,
    open_tenant,
    run_async,
    working,
)
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, remark
from app.errors import InvalidInput, KnowledgeError, ModelChangeNotFound

if TYPE_CHECKING:
    from app.cli.remote.knowledge import RemoteKnowledge
    from app.composition.services import Services
    from app.contract.models import ModelChange, NewModelChange

Action = Literal["start", "rebuild", "status", "switch", "back", "end"]
POLL_SECONDS = 0.25
STALLED_SECONDS = 60.0
"""Wait for a failing provider: as long as `ingest` and `import` wait."""


class ChangeStalled(KnowledgeError):
    """A change that waits for its provider; it continues without the command."""


def register(app: typer.Typer) -> None:
    """Add the command `reembed`."""
    app.command(
        short_help="Move a tenant to another embedding model.",
        epilog=examples(
            "knowledge reembed --tenant demo",
            "knowledge reembed --tenant demo --rate 600 --by-hand",
            "knowledge reembed rebuild --tenant demo",
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
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Switch only if the semantic leg keeps this fraction of its first hits; otherwise wait.",
            show_default="0.8",
        ),
    ] = None,
    by_hand: Annotated[bool, typer.Option("--by-hand", help="Do not switch; use `knowledge reembed switch`.")] = False,
    as_json: Annotated[
        bool,
        json_option("{state, progress, old, new, entries, comparison, …}; {state: ended} once it is over"),
    ] = False,
) -> None:
    """Move a tenant to the other one of the models of EMBEDDING_* and EMBEDDING_NEXT_*, or rebuild its vectors.

    Set EMBEDDING_NEXT_* for every process of the service, run `knowledge model add --next`, then this command. The new
    model's vectors are created while searches use the old ones. Then both models are compared: by feedback if there is
    enough, otherwise by the semantic leg's first hits. The tenant is switched if the evidence is good enough; if not,
    the command shows why, and `switch` switches. After Ctrl-C the work continues in the service; run this command
    again to watch it. `back` switches to the old model, as long as its vectors are kept; `end` removes the vectors not
    in use. `rebuild` replaces the vectors of the model in use; searches stay complete.
    """
    target = choose_target(tenant)
    if action != "start" and (switch_at is not None or by_hand):
        raise InvalidInput.of("--switch-at, --by-hand", "are allowed for start only")
    if action not in ("start", "rebuild") and rate is not None:
        raise InvalidInput.of("--rate", "is allowed for start and rebuild only")
    from app.contract.models import NewModelChange
    from app.contract.validation import UNSET

    wanted = NewModelChange(
        rate=UNSET if rate is None else rate,
        switch_at_overlap=None if by_hand else UNSET if switch_at is None else switch_at,
    )
    change = run_async(_act(target, action, wanted))
    if as_json:
        print_json({"state": "ended"} if change is None else change)
    else:
        for line in describe_change(tenant, change):
            typer.echo(line)


def describe_change(tenant: str, change: ModelChange | None) -> list[str]:
    """Describe a change in a few lines."""
    if change is None:
        return [f"tenant {tenant}: the change has ended, and unused vectors have been removed"]
    from app.knowledge.reembedding.machine import explain_change

    old, new = (f"{m.provider}/{m.name} ({m.dimensions})" for m in (change.old, change.new))
    subject = f"rebuild of {new}" if change.rebuild else f"{old} to {new}"
    lines = [f"tenant {tenant}, {subject}: {change.state}, {change.progress:.0%} of {change.entries} entries"]
    lines += explain_change(change)
    if change.state == "ready":
        lines.append(f"to switch: knowledge reembed switch --tenant {tenant}")
    if change.state == "switched" and not change.rebuild:
        lines.append(
            f"the old vectors are kept; to go back: knowledge reembed back --tenant {tenant};"
            f" to remove them: knowledge reembed end --tenant {tenant}"
        )
    return lines


async def _act(target: Target, action: Action, wanted: NewModelChange) -> ModelChange | None:
    if isinstance(target, Local):
        async with open_tenant(target.settings, target.slug) as (services, tenant):
            if (done := await _begin(services, tenant.id, action, wanted)) is not None:
                return done
            async with working(services):
                return await watch_change(services, tenant.id)
    from app.cli.remote.knowledge import open_remote

    async with open_remote(target) as knowledge:
        tenant_id = (await knowledge.tenants.find("")).id
        if (done := await _begin(knowledge, tenant_id, action, wanted)) is not None:
            return done
        return await watch_change(knowledge, tenant_id)


async def _begin(
    services: Services | RemoteKnowledge, tenant_id: UUID, action: Action, wanted: NewModelChange
) -> ModelChange | None:
    """Do what was asked for; None if the change is then to be watched."""
    service = services.reembedding
    match action:
        case "status":
            return await service.status(tenant_id, reader=ACTOR)
        case "switch" | "back":
            return await service.switch(tenant_id, back=action == "back", actor=ACTOR)
        case "end":
            await service.end(tenant_id, actor=ACTOR)
        case "rebuild":
            await service.rebuild(tenant_id, wanted, actor=ACTOR)
        case "start":
            await service.start(tenant_id, wanted, actor=ACTOR)
    return None


async def watch_change(
    services: Services | RemoteKnowledge, tenant_id: UUID, *, stalled: float = STALLED_SECONDS
) -> ModelChange | None:
    """Wait until the change needs a decision; None when it has ended.

    Raises ChangeStalled when it has not advanced for `stalled` seconds because its provider fails.
    """
    told = False
    best, since = -1.0, 0.0
    try:
        change = await services.reembedding.status(tenant_id)
        with show_progress("entries", change.entries) as report:
            while not change.rests:
                if change.progress > best:
                    best, since = change.progress, time.monotonic()
                elif change.failure is not None and time.monotonic() - since > stalled:
                    raise ChangeStalled(
                        f"{change.failure}; the change is at {change.progress:.0%} and continues in the service;"
                        " run this command again to watch it"
                    )
                await asyncio.sleep(POLL_SECONDS)
                change = await services.reembedding.status(tenant_id)
                report(min(change.entries, round(change.progress * change.entries)))
                if not change.served and not told and change.state == "filling":
                    told = True
                    remark("this process has no provider for the new model; another process may have one")
    except ModelChangeNotFound:
        return None
    return change
