"""Run a command: read its options and settings, choose its tenant, and stop cleanly on a signal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer

from app.cli.output.failures import Interrupted
from app.cli.output.progress import show_waiting
from app.errors import ConfigurationError, InvalidInput
from app.kernel import forbid_inspection, return_large_blocks

if TYPE_CHECKING:
    import asyncio

    from app.composition.platform import Platform
    from app.composition.services import Services
    from app.contract.administration import Tenant
    from app.settings import Settings

named_env_file: ContextVar[Path | None] = ContextVar("named_env_file", default=None)
"""The file that `--env-file` names."""


def complete_tenant(incomplete: str) -> list[str]:
    """Complete slugs in the shell; none if the database is not running."""
    from app.cli.place import find_slugs

    return find_slugs(incomplete)


def find_tenant() -> str:
    """The tenant of a command that names none; empty without one, or where the token of KB_TOKEN determines it."""
    return default_tenant() or ""


def require_tenant(context: typer.Context, slug: str) -> str:
    """Check that there is a tenant, but not while a shell completes the line. Raises BadParameter."""
    if not slug and not context.resilient_parsing and default_tenant() is None:
        raise typer.BadParameter("is required, unless KB_TENANT or KB_URL is set")
    return slug


TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant",
        "-t",
        metavar="SLUG",
        help="The tenant; default: KB_TENANT. Omit it with KB_URL.",
        show_default=False,
        default_factory=find_tenant,
        callback=require_tenant,
        autocompletion=complete_tenant,
    ),
]


def split_assignment(option: str, text: str) -> tuple[str, str]:
    """The name and the value of `NAME=VALUE`. Raises InvalidInput, which names the option."""
    name, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not name:
        raise InvalidInput.of(option, f"{text!r} does not have the form NAME=VALUE")
    return name, value


def examples(*lines: str) -> str:
    """An epilog that keeps its line breaks."""
    return paragraph("Examples:", *lines)


def paragraph(heading: str, *lines: str) -> str:
    """A heading and lines, in a help text that keeps line breaks."""
    return f"\b\n{heading}\n" + "\n".join(f"  {line}" for line in lines)


class Commands(typer.Typer):
    """Commands with their examples; with a `name`, a group of them that has examples itself."""

    def __init__(self, name: str | None = None, summary: str | None = None, *lines: str, **more: Any) -> None:
        # Without a summary, a group is described by its callback.
        described: dict[str, Any] = {} if summary is None else {"help": summary, "no_args_is_help": True}
        super().__init__(name=name, epilog=examples(*lines), rich_markup_mode=None, **described, **more)

    def add(
        self, *lines: str, name: str | None = None, short_help: str | None = None
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Add a function as a command with these examples, by default under its own name."""

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            called = name or function.__name__.replace("_", "-")
            return self.command(called, short_help=short_help, epilog=examples(*lines))(function)

        return decorate


program = Commands()
"""The commands of the loaded modules that are not in a group."""


def json_option(shape: str) -> Any:
    """The option `--json` of a command that prints JSON in this form."""
    return typer.Option("--json", help=f"Print JSON: {shape}.")


NAMES = ("KB_URL", "KB_TOKEN", "KB_TENANT", "KB_ACCESS")
"""Variables that choose the target, from the environment or the file that `--env-file` names. With KB_URL and KB_TOKEN,
commands go to that service; with KB_ACCESS=all, an admin sees all of its tenant."""


class Remote:
    """A service elsewhere; its token determines the tenant. `sees_all`: its admin asks to see all of it."""

    def __init__(self, url: str, token: str, *, sees_all: bool = False) -> None:
        self.url = url
        self.token = token
        self.sees_all = sees_all


class Local:
    """A tenant in the database of these settings, or without a slug the platform."""

    def __init__(self, settings: Settings, slug: str | None) -> None:
        self.settings = settings
        self.slug = slug


Target = Local | Remote


def choose_target(slug: str) -> Target:
    """The target of a command of a tenant; `slug` is empty where none is given and KB_URL is set.

    Raises InvalidInput for a slug in addition to KB_URL, and ConfigurationError.
    """
    remote = find_remote()
    if remote is None:
        return Local(read_settings(), slug)
    if slug:
        raise InvalidInput.of("--tenant", "must be omitted with KB_URL: KB_TOKEN determines the tenant")
    forbid_inspection()
    _log_as_command(debug=os.environ.get("LOG_LEVEL") == "debug", json=False)
    return remote


def choose_platform() -> Target:
    """The target of a command that manages tenants. Raises ConfigurationError."""
    return find_remote() or Local(read_settings(), None)


def describe_target(target: Target) -> str:
    """The target, for a question whether to delete something there."""
    return f"tenant {target.slug}" if isinstance(target, Local) else f"the token's tenant at {target.url}"


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted, unless the user said yes already. Raises InvalidInput, and Abort."""
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput.of("--yes", "is required without a terminal")
        typer.confirm(question, abort=True, err=True)


def find_remote() -> Remote | None:
    """The service that KB_URL names, if it is set. Raises ConfigurationError."""
    environment, file = _read_variables()
    values = {**file, **environment}
    url, token = values.get("KB_URL"), values.get("KB_TOKEN")
    if url is None:
        return None
    if token is None:
        raise ConfigurationError("KB_TOKEN", "must be set with KB_URL", "knowledge token prints a token")
    if ("KB_URL" in environment) != ("KB_TOKEN" in environment):
        raise ConfigurationError(
            "KB_URL and KB_TOKEN", "must come from one source", "set both in the environment or both in the file"
        )
    if not _is_address(url):
        raise ConfigurationError("KB_URL", "must be an address such as https://knowledge.example.com")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("KB_TOKEN", "must be one line without spaces, as knowledge token prints it")
    return Remote(url.rstrip("/"), token, sees_all=asks_for_all())


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = parts.hostname and parts.port != 0
    except ValueError:  # of brackets, or of the port
        return False
    return bool(named) and parts.scheme in ("http", "https") and not (parts.username or parts.query or parts.fragment)


def asks_for_all() -> bool:
    """Whether KB_ACCESS asks to see all of the tenant. Raises ConfigurationError."""
    if (access := _values().get("KB_ACCESS")) not in (None, "all"):
        raise ConfigurationError("KB_ACCESS", "must be all, or not set")
    return access is not None


def default_tenant() -> str | None:
    """The slug of KB_TENANT; empty if the token determines the tenant; None if a command needs one."""
    values = _values()
    return "" if "KB_URL" in values else values.get("KB_TENANT")


def _values() -> Mapping[str, str]:
    """The variables of this module; those of the environment count more than those of the file."""
    environment, file = _read_variables()
    return {**file, **environment}


def _read_variables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The variables of this module that are not empty: of the environment, and of the file."""
    file: Mapping[str, str] = {}
    if (path := named_env_file.get()) is not None:
        from app.settings.loading import read_env_file

        file = read_env_file(path)
    environment, named = (
        {name: value for name in NAMES if (value := source.get(name, "").strip())} for source in (os.environ, file)
    )
    return environment, named


T = TypeVar("T")
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

    forbid_inspection()
    if not serves and "KB_URL" in _values():
        raise ConfigurationError(
            "KB_URL",
            "is set, but this command needs the database of the service",
            "unset KB_URL, and run the command where the service runs",
        )
    file = named_env_file.get() or (ENV_FILE if serves else None)
    if file is None and ENV_FILE.exists():
        typer.echo("note: .env in this folder is not read; --env-file .env reads it", err=True)
    settings = load_settings({**os.environ, **changes}, file, identity_required=identity_required)
    _check_data_folder(settings)
    _log_as_command(debug=settings.logging.level == "debug", json=settings.logging.format == "json")
    return settings


def _log_as_command(*, debug: bool, json: bool) -> None:
    """Log warnings only, each on one line, unless the level is debug."""
    from app.telemetry.logs import configure_logging

    configure_logging("debug" if debug else "warning", json, stacks=debug)


def _check_data_folder(settings: Settings) -> None:
    """Raise ConfigurationError for an embedded database that lies in the current folder but is not the user's own.

    A folder that the environment or `--env-file` names is the user's choice, and from then on the user's own.
    """
    if not settings.database.embedded:
        return
    from app.embedded.data_folder import mark_created_here, require_created_here

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
    configure_logging(settings.logging.level, json=chosen == "json" or (chosen == "auto" and not sys.stderr.isatty()))
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

    from app.concurrency.background import on_signals
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

    from app.concurrency.background import LARGE

    try:
        import uvloop

        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        new_loop = None
    return_large_blocks(LARGE)
    with contextlib.suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)


def is_database_absent(settings: Settings) -> bool:
    """Whether the embedded database does not exist yet."""
    return settings.database.embedded and not (settings.database.data_dir / "postgres").exists()


def require_database(settings: Settings) -> None:
    """Raise ConfigurationError instead of creating an empty database for a command that needs a tenant."""
    if is_database_absent(settings):
        raise ConfigurationError(
            "KB_DATA_DIR",
            f"no database in {settings.database.data_dir.absolute()} yet",
            "set it to the folder of the service, or run knowledge serve for a new one",
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
