"""Run a command: load settings, set up logs, and run an event loop that a signal ends cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from app.cli.options import named_env_file
from app.cli.output.failures import Interrupted
from app.cli.output.progress import show_waiting
from app.cli.target import refuse_remote
from app.kernel import forbid_inspection, return_large_blocks

if TYPE_CHECKING:
    import asyncio

    from app.composition.platform import Platform
    from app.composition.services import Services
    from app.knowledge.tenants.directory import Tenant
    from app.settings import Settings

T = TypeVar("T")
ACTOR = "command-line"
"""The actor in the audit trail."""
ENV_FILE = Path(".env")
"""The file of settings in the current folder, which only the commands that serve read unasked."""


class CancelledWithin(Exception):
    """The work was cancelled, but not by a signal."""


def read_settings(*, identity_required: bool = False, serves: bool = False, **changes: str) -> Settings:
    """Load the settings with the variables in `changes` replaced, and set up logging for a command.

    A command that `serves` reads `.env` in the current folder; the others run in any folder, also in one that a
    stranger filled, and read only the file that `--env-file` names. From now on the process has keys, so no other
    process of its user can read its memory. Commands log warnings only, unless LOG_LEVEL is debug. Raises
    ConfigurationError, also for a command that does not serve while KB_URL is set.
    """
    from app.settings import load_settings
    from app.telemetry.logs import configure_logging

    forbid_inspection()
    if not serves:
        refuse_remote()
    file = named_env_file.get() or (ENV_FILE if serves else None)
    if file is None and ENV_FILE.exists():
        typer.echo("note: .env in this folder is not read; --env-file .env reads it", err=True)
    settings = load_settings({**os.environ, **changes}, file, identity_required=identity_required)
    _check_data_folder(settings)
    level = "debug" if settings.logging.level == "debug" else "warning"
    configure_logging(level, json=settings.logging.format == "json")
    return settings


def _check_data_folder(settings: Settings) -> None:
    """Raise ConfigurationError for an embedded database that lies in the current folder but is not the user's own.

    A folder that the environment or `--env-file` names is the user's choice, and from then on the user's own.
    """
    if not settings.database.embedded:
        return
    from app.embedded.provenance import mark_created_here, require_created_here

    folder = settings.database.data_dir
    is_given = "data_dir" in settings.database.model_fields_set
    if is_given and (os.environ.get("KB_DATA_DIR", "").strip() or named_env_file.get() is not None):
        if folder.is_dir():
            mark_created_here(folder)
    else:
        require_created_here(folder)


def log_as_service(settings: Settings) -> None:
    """Set up logging from the settings: plain lines on a terminal, JSON elsewhere, unless one is chosen."""
    import logging

    from app.telemetry.logs import configure_logging

    chosen = settings.logging.format
    configure_logging(
        settings.logging.level, json=chosen == "json" or (chosen == "auto" and not sys.stderr.isatty())
    )
    if settings.logging.level == "info":
        # Their lines about starting and stopping repeat ours.
        for name in ("uvicorn", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)


def run_async(work: Coroutine[Any, Any, T], *, doing: str | None = None) -> T:
    """Run a command's work. Ctrl-C and SIGTERM cancel it, wait for its cleanup, and end the command.

    `doing` is shown on a terminal after a second, for work that does not show its own progress.
    Raises Interrupted after a signal, CancelledWithin when the work was cancelled without one.
    """
    import asyncio

    from app.db.principals import SERVICE, act_as

    signalled = False

    async def guarded() -> T:
        act_as(SERVICE)  # a user who runs commands here can open the database
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            nonlocal signalled
            signalled = True
            task.cancel()

        with on_signals(stop):
            return await work

    waiting = contextlib.nullcontext() if doing is None else show_waiting(doing)
    try:
        with waiting:
            return asyncio.run(guarded())
    except asyncio.CancelledError as error:
        if signalled:
            raise Interrupted from None
        raise CancelledWithin from error


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run a server process on uvloop; a stop by a signal is a success."""
    import asyncio

    from app.concurrency.release import LARGE

    try:
        import uvloop

        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        new_loop = None
    return_large_blocks(LARGE)
    with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)


@contextlib.contextmanager
def on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at SIGINT and SIGTERM, inside the running event loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def is_database_absent(settings: Settings) -> bool:
    """Whether the embedded database does not exist yet."""
    return settings.database.embedded and not (settings.database.data_dir / "postgres").exists()


def require_database(settings: Settings) -> None:
    """Raise ConfigurationError instead of creating an empty database for a command that needs a tenant."""
    from app.errors import ConfigurationError

    if is_database_absent(settings):
        raise ConfigurationError(
            "KB_DATA_DIR",
            f"no database in {settings.database.data_dir} yet",
            "run knowledge serve, or set another folder",
        )


@contextlib.asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Services]:
    """Open the services. Raises ConfigurationError."""
    from app.composition.services import open_services

    require_database(settings)
    async with open_services(settings) as services:
        yield services


@contextlib.asynccontextmanager
async def open_tenant(settings: Settings, slug: str) -> AsyncIterator[tuple[Services, Tenant]]:
    """Open the services and find one tenant. Raises ConfigurationError, TenantNotFound."""
    async with open_service(settings) as services:
        yield services, await services.tenants.find(slug)


@contextlib.asynccontextmanager
async def open_tenants(settings: Settings) -> AsyncIterator[Platform]:
    """Open only the tenants, without loading an embedding model. Raises ConfigurationError."""
    from app.composition.platform import open_platform

    require_database(settings)
    async with open_platform(settings) as platform:
        yield platform


@contextlib.asynccontextmanager
async def working(services: Services, *, warns: bool = True) -> AsyncIterator[None]:
    """Run a worker in this process, in addition to others; its failure ends the command.

    It parses files here, so it warns of the protections that this system lacks, unless the command does so elsewhere.
    """
    import asyncio

    from app.documents.process.parsing import log_missing_protections

    tasks = [asyncio.create_task(services.worker.run())]
    if warns:
        tasks.append(asyncio.create_task(log_missing_protections()))
    current = asyncio.current_task()
    assert current is not None

    def give_up(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            current.cancel()

    tasks[0].add_done_callback(give_up)
    try:
        yield
        # A short command also waits for its warning.
        await asyncio.gather(*tasks[1:])
    finally:
        tasks[0].remove_done_callback(give_up)
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
