"""`knowledge doctor`: what works, what does not, and how to mend it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from app.cli.execution import read_settings, run_async
from app.cli.options import JsonOption, examples
from app.cli.terminal import print_json
from app.errors import ConfigurationError, EmbeddingUnavailable, KnowledgeError

if TYPE_CHECKING:
    from app.settings import Settings

Status = Literal["ok", "warn", "fail"]
LITTLE_DISK = 2 * 1024**3
NO_DISK = 200 * 1024**2
COLOURS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis; a failure's detail ends with the remedy."""

    check: str
    status: Status
    detail: str


def register(app: typer.Typer) -> None:
    """Add the command `doctor`."""
    app.command(epilog=examples("knowledge doctor", "knowledge doctor --json"))(doctor)


def doctor(as_json: JsonOption = False) -> None:
    """Check settings, database, schema, embedding provider and disk. The status is 1 if anything is wrong."""
    findings = run_async(diagnose())
    if as_json:
        print_json(findings)
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            mark = typer.style(f"{finding.status:<4}", fg=COLOURS[finding.status])
            typer.echo(f"{mark}  {finding.check:<{width}}  {finding.detail}")
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


async def diagnose() -> list[Finding]:
    """All checks that make sense; what depends on a failed one is left out."""
    try:
        settings = read_settings()
    except KnowledgeError as error:
        return [Finding("settings", "fail", str(error))]
    embedded = settings.database.embedded
    place = f"embedded Postgres in {settings.database.data_dir}" if embedded else "Postgres of DATABASE_URL"
    return [
        Finding("settings", "ok", f"{place}, embeddings by {settings.embedding.provider}"),
        _check_tokens(settings),
        _check_disk(settings.database.data_dir if embedded else Path(tempfile.gettempdir())),
        *[finding async for finding in _check_database(settings)],
        *[finding async for finding in _check_providers(settings)],
    ]


def _check_tokens(settings: Settings) -> Finding:
    jwt = settings.jwt
    if jwt.jwks_url is not None:
        return Finding("tokens", "ok", "verified with the keys of JWT_JWKS_URL")
    if jwt.secret is not None:
        return Finding("tokens", "ok", "verified with JWT_SECRET")
    if settings.database.embedded:
        return Finding("tokens", "ok", "verified with the secret kept in KB_DATA_DIR")
    return Finding(
        "tokens",
        "warn",
        "JWT_SECRET or JWT_JWKS_URL: one must be set for `knowledge serve` (not for a worker)",
    )


def _check_disk(place: Path) -> Finding:
    existing = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1024**3:.1f} GB free for {place}"
    if free < NO_DISK:
        return Finding("disk", "fail", f"{detail}: make room")
    return Finding("disk", "warn" if free < LITTLE_DISK else "ok", detail)


async def _check_database(settings: Settings) -> AsyncIterator[Finding]:
    from app.bootstrap import configured_models
    from app.composition import find_models
    from app.db import catalog
    from app.db.isolation import find_faults
    from app.db.migration import latest_revision
    from app.db.session import Database

    try:
        async with _reach(settings) as dsn:
            connection = await catalog.connect(dsn, "DATABASE_URL")
            try:
                version = await connection.fetchval("show server_version")
                yield Finding("database", "ok", f"reached, Postgres {version}")
                vector = await connection.fetchval(
                    "select extversion from pg_extension where extname = 'vector'"
                )
                await catalog.check_server(connection)
                yield Finding("extension", "ok", f"pgvector {vector}")
                await catalog.check_service_role(connection)
                role = await connection.fetchval("select current_user")
                yield Finding("role", "ok", f"{role}, bound by row-level security")
                await catalog.check_schema(connection)
                yield Finding("migrations", "ok", f"at revision {latest_revision()}")
                faults = await find_faults(connection)
                for fault in faults:
                    yield Finding("isolation", "fail", f"{fault.text}; remedy: {fault.remedy}")
                if not faults:
                    yield Finding(
                        "isolation", "ok", "tables, policies, grants and functions are as they should be"
                    )
            finally:
                await connection.close()
            models = configured_models(settings)
            database = Database(dsn, pool_size=1, prepared_statements=settings.database.prepared_statements)
            try:
                await find_models(database, models)
            finally:
                await database.close()
            for model in models:
                yield Finding("model", "ok", f"{model.provider}/{model.name}, {model.dimensions} dimensions")
    except KnowledgeError as error:
        yield Finding(_name(error), "fail", str(error))


@asynccontextmanager
async def _reach(settings: Settings) -> AsyncIterator[str]:
    from app.bootstrap import open_database

    async with open_database(settings) as addresses:
        yield addresses.service


def _name(error: KnowledgeError) -> str:
    """Which check an error of the database's belongs to."""
    text = str(error)
    for word, check in (
        ("pgvector", "extension"),
        ("migrate", "migrations"),
        ("role", "role"),
        ("EMBEDDING_", "model"),
    ):
        if word in text:
            return check
    return "database"


async def _check_providers(settings: Settings) -> AsyncIterator[Finding]:
    import asyncio

    from app.composition import build_providers

    try:
        providers = await asyncio.to_thread(build_providers, settings)
    except ConfigurationError as error:
        yield Finding("provider", "fail", str(error))
        return
    for provider in providers:
        started = time.perf_counter()
        try:
            vector = await provider.embed_query("word")
        except EmbeddingUnavailable as error:
            yield Finding(
                "provider", "fail", f"{error}; searches use words alone until the key and address are right"
            )
        else:
            milliseconds = round(1000 * (time.perf_counter() - started))
            yield Finding("provider", "ok", f"{len(vector)} dimensions in {milliseconds} ms")
        finally:
            await provider.close()
