"""`knowledge model` and `reembed`: register and list embedding models, and move a tenant to another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import TypeAdapter

from app.cli.door import Door, open_door
from app.cli.execution import (
    Commands,
    TenantOption,
    choose_target,
    complete_tenant,
    json_option,
    open_tenants,
    program,
    read_settings,
    run_async,
)
from app.cli.output.progress import show_progress
from app.cli.output.text import print_json, print_table, remark
from app.concurrency.patience import POLL_SECONDS, STALLED_SECONDS
from app.contract.models import ModelChange
from app.contract.vocabulary import COMMAND_LINE
from app.errors import ConfigurationError, InvalidInput, KnowledgeError, ModelChangeNotFound
from knowledge_client import administration
from knowledge_client.exchange import Exchange

if TYPE_CHECKING:
    from app.embeddings.provider import EmbeddingModel
    from app.evaluation.calibration import Calibration
    from app.evaluation.collection import Collection
    from app.settings import Settings

ProviderName = Literal["local", "openai", "gemini", "fastembed", "mock"]

group = Commands("model", "Register and list embedding models.", "knowledge model list")


@group.add(
    "knowledge model add",
    "knowledge model add --provider openai --model text-embedding-3-small --dimensions 512",
    "EMBEDDING_NEXT_PROVIDER=gemini knowledge model add --next",
    name="add",
    short_help="Register a model.",
)
def add_model(
    provider: Annotated[
        ProviderName | None, typer.Option(help="Default: the configured provider.", show_default=False)
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Default: the provider's default model.")] = None,
    dimensions: Annotated[int | None, typer.Option(metavar="N", help="Default: the model's default.")] = None,
    following: Annotated[
        bool, typer.Option("--next", help="Register the model of EMBEDDING_NEXT_PROVIDER, to which tenants will move.")
    ] = False,
    as_json: Annotated[bool, json_option("{id, created, model: {provider, name, dimensions, …}}")] = False,
) -> None:
    """Register a model; harmless if it is already registered.

    Reads DATABASE_ADMIN_URL, because only the tables' owner can register a model.
    """
    from app.composition.providers import configured_models
    from app.embeddings.provider import resolve_model

    settings = read_settings()
    if following:
        if provider or model or dimensions:
            raise InvalidInput.of("--next", "uses the model of EMBEDDING_NEXT_PROVIDER and excludes the other options")
        if settings.next_embedding.provider is None:
            raise ConfigurationError("EMBEDDING_NEXT_PROVIDER", "must be set for --next")
        chosen = configured_models(settings)[1]
    else:
        if provider is None:
            configured = settings.embedding
            provider, model = configured.provider, model or configured.model
            dimensions = dimensions or configured.dimensions
        chosen = resolve_model(provider, model, dimensions)
    model_id, is_new = run_async(_add(settings, chosen), doing="registering the model")
    if as_json:
        print_json({"id": model_id, "created": is_new, "model": chosen})
    else:
        verb = "registered" if is_new else "already registered:"
        typer.echo(f"{verb} {chosen.provider}/{chosen.name}, {chosen.dimensions} dimensions (number {model_id})")


@group.add("knowledge model list", "knowledge model list --json", name="list")
def list_models(
    as_json: Annotated[
        bool, json_option("a list of {id, provider, name, dimensions, max_tokens, similarity_threshold, centre}")
    ] = False,
) -> None:
    """List the registered models."""
    models = run_async(_list(read_settings()), doing="reading the models")
    if as_json:
        print_json(models)
        return
    columns = ("id", "provider", "name", "dimensions", "max_tokens", "similarity_threshold", "centre")
    headings = tuple(name.replace("_", " ") for name in columns)
    rows = [["" if model[name] is None else model[name] for name in columns] for model in models]
    print_table(headings, rows, right=headings[3:])


@group.add(
    "knowledge model calibrate scifact cranfield",
    "knowledge model calibrate --tenant acme --tenant globex --dry-run",
    name="calibrate",
    short_help="Measure when a model deserves more weight than the words.",
)
def calibrate_model(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="Judged collections, as for `knowledge eval`.")
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant",
            "-t",
            metavar="SLUG",
            help="Use the feedback of this tenant's callers; repeat it for several tenants.",
            autocompletion=complete_tenant,
        ),
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use N queries of each folder, always the same.")
    ] = None,
    vector_cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep vectors there for the next run.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure, and store nothing.")] = False,
    as_json: Annotated[bool, json_option("{model, centre, measured: [{name, mean_similarity, ndcg, …}]}")] = False,
) -> None:
    """Measure the centre of the configured model on judged questions, and store it with the model.

    The centre is the mean similarity of best hits at which both legs deserve the same weight. A tenant whose searches
    have a higher mean gets more weight for the semantic leg. A model without a centre keeps equal weights; the local
    models have one. Use several collections that resemble the tenants' knowledge, in languages that the model knows:
    the centre is the one with the best mean nDCG@10 that costs none of them more than 0.005. With --tenant, the
    questions are those with feedback, which the tenant must keep (setting keep_query_text).

    Reads DATABASE_ADMIN_URL, because only the tables' owner can change a model.
    """
    from app.evaluation.calibration import HEADINGS, rows_of
    from app.evaluation.collection import read_path

    if not folders and not tenant:
        raise typer.BadParameter("name a folder, or a tenant with --tenant", param_hint="DIR")
    collections = [read_path(folder).sample(queries) for folder in folders or ()]
    settings = read_settings()
    measuring = _calibrate(settings, collections, tenant or (), vector_cache, stores=not dry_run)
    found = run_async(measuring, doing="measuring the model")
    if as_json:
        print_json(found.as_json())
        return
    print_table(HEADINGS, rows_of(found), right=HEADINGS[1:])
    remark(f"{found.model.provider}/{found.model.name}: centre {found.centre:g}{', not stored' if dry_run else ''}")


async def _add(settings: Settings, model: EmbeddingModel) -> tuple[int, bool]:
    from app.composition.database import open_database
    from app.db.schema.lineage import read_revision
    from app.db.schema.owner import register_model

    async with open_database(settings) as addresses:
        if addresses.admin is None:
            raise ConfigurationError("DATABASE_ADMIN_URL", "must be set to register a model")
        await read_revision(addresses.admin, "DATABASE_ADMIN_URL")
        return await register_model(addresses.admin, model, actor=COMMAND_LINE)


async def _calibrate(
    settings: Settings,
    collections: Sequence[Collection],
    slugs: Sequence[str],
    vector_cache: Path | None,
    *,
    stores: bool,
) -> Calibration:
    from app.composition.database import open_database
    from app.composition.services import open_services
    from app.db.schema.owner import store_centre
    from app.evaluation.calibration import calibrate
    from app.evaluation.report import with_cache

    async with open_database(settings) as addresses:
        if stores and addresses.admin is None:
            raise ConfigurationError("DATABASE_ADMIN_URL", "must be set to store the centre; or use --dry-run")
        async with open_services(settings) as plain, with_cache(plain, vector_cache) as services:
            found = await calibrate(services, collections, slugs, show_progress, reader=COMMAND_LINE)
        if stores and addresses.admin is not None:
            await store_centre(addresses.admin, found.model, found.centre, actor=COMMAND_LINE)
        return found


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with open_tenants(settings) as platform:
        return [{"id": m.id, **asdict(m.model)} for m in await platform.platform.models()]


Action = Literal["start", "rebuild", "status", "switch", "back", "end"]


class ChangeStalled(KnowledgeError):
    """A change that waits for its provider; it continues without the command."""


@program.add(
    "knowledge reembed --tenant demo",
    "knowledge reembed --tenant demo --rate 600 --by-hand",
    "knowledge reembed rebuild --tenant demo",
    "knowledge reembed switch --tenant demo",
    "knowledge reembed back --tenant demo",
    "knowledge reembed end --tenant demo",
)
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
        bool, json_option("{state, progress, old, new, entries, comparison, …}; {state: ended} once it is over")
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

    terms: dict[str, Any] = {} if rate is None else {"rate": rate}
    if by_hand or switch_at is not None:
        terms["switch_at_overlap"] = None if by_hand else switch_at
    with open_door(target, works=action in ("start", "rebuild", "end")) as door:
        change = _act(door, action, terms)
    if as_json:
        print_json({"state": "ended"} if change is None else door.answer)
    else:
        for line in describe_change(tenant, change):
            typer.echo(line)


def describe_change(tenant: str, change: ModelChange | None) -> list[str]:
    """Describe a change in a few lines."""
    if change is None:
        return [f"{_name(tenant)}: the change has ended, and unused vectors have been removed"]
    from app.knowledge.reembedding.machine import explain_change

    old, new = (f"{m.provider}/{m.name} ({m.dimensions})" for m in (change.old, change.new))
    subject = f"rebuild of {new}" if change.rebuild else f"{old} to {new}"
    option = f" --tenant {tenant}" if tenant else ""
    lines = [f"{_name(tenant)}, {subject}: {change.state}, {change.progress:.0%} of {change.entries} entries"]
    lines += explain_change(change)
    if change.state == "ready":
        lines.append(f"to switch: knowledge reembed switch{option}")
    if change.state == "switched" and not change.rebuild:
        lines.append(
            f"the old vectors are kept; to go back: knowledge reembed back{option};"
            f" to remove them: knowledge reembed end{option}"
        )
    return lines


def _name(tenant: str) -> str:
    return f"tenant {tenant}" if tenant else "the token's tenant"


def _act(door: Door, action: Action, terms: dict[str, Any]) -> ModelChange | None:
    """Do what was asked for, and watch the change that it started or ended."""
    match action:
        case "status":
            return _read(door, administration.get_model_change())
        case "switch" | "back":
            return _read(door, administration.switch_model(back=action == "back"))
        case "end":
            door.run(administration.end_model_change())
        case "rebuild":
            model = door.look(administration.get_statistics()).model
            named: dict[str, Any] = {"provider": model.provider, "model": model.name, "dimensions": model.dimensions}
            door.run(administration.start_model_change(**named, **terms))
        case "start":
            door.run(administration.start_model_change(**terms))
    return watch_change(door)


def _read(door: Door, exchange: Exchange[Any], *, looks_only: bool = False) -> ModelChange:
    """The change that a call answers with, as the service has it."""
    (door.look if looks_only else door.run)(exchange)
    return TypeAdapter(ModelChange).validate_json(door.answer)


def watch_change(door: Door, *, stalled: float = STALLED_SECONDS) -> ModelChange | None:
    """Wait until the change needs a decision; None when it has ended.

    Raises ChangeStalled when it has not advanced for `stalled` seconds because its provider fails.
    """
    told = False
    best, since = -1.0, 0.0
    try:
        change = _read(door, administration.get_model_change(), looks_only=True)
        with show_progress("entries", change.entries) as report:
            while not change.rests:
                if change.progress > best:
                    best, since = change.progress, time.monotonic()
                elif change.failure is not None and time.monotonic() - since > stalled:
                    raise ChangeStalled(
                        f"{change.failure}; the change is at {change.progress:.0%} and continues in the service;"
                        " run this command again to watch it"
                    )
                time.sleep(POLL_SECONDS)
                change = _read(door, administration.get_model_change(), looks_only=True)
                report(min(change.entries, round(change.progress * change.entries)))
                if not change.served and not told and change.state == "filling":
                    told = True
                    remark("this process has no provider for the new model; another process may have one")
    except ModelChangeNotFound:
        return None
    return change
