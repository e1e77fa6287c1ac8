"""`knowledge model`: register and list embedding models."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli.execution import Commands, json_option, open_tenants, read_settings, run_async
from app.cli.output.text import print_json, print_table
from app.contract.vocabulary import COMMAND_LINE
from app.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from app.embeddings.provider import EmbeddingModel
    from app.settings import Settings

ProviderName = Literal["local", "openai", "gemini", "mock"]


program = Commands("model", "Register and list embedding models.", "knowledge model list")


@program.add(
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


@program.add("knowledge model list", "knowledge model list --json", name="list")
def list_models(
    as_json: Annotated[
        bool, json_option("a list of {id, provider, name, dimensions, max_tokens, similarity_threshold}")
    ] = False,
) -> None:
    """List the registered models."""
    models = run_async(_list(read_settings()), doing="reading the models")
    if as_json:
        print_json(models)
        return
    columns = ("id", "provider", "name", "dimensions", "max_tokens", "similarity_threshold")
    headings = tuple(name.replace("_", " ") for name in columns)
    print_table(headings, [[model[name] for name in columns] for model in models], right=headings[3:])


async def _add(settings: Settings, model: EmbeddingModel) -> tuple[int, bool]:
    from app.composition.database import open_database
    from app.db.schema.lineage import read_revision
    from app.db.schema.owner import register_model

    async with open_database(settings) as addresses:
        if addresses.admin is None:
            raise ConfigurationError("DATABASE_ADMIN_URL", "must be set to register a model")
        await read_revision(addresses.admin, "DATABASE_ADMIN_URL")
        return await register_model(addresses.admin, model, actor=COMMAND_LINE)


async def _list(settings: Settings) -> list[dict[str, Any]]:
    async with open_tenants(settings) as platform:
        return [{"id": m.id, **asdict(m.model)} for m in await platform.platform.models()]
