"""What a command acts on: a tenant in this installation's database, or the tenant of a token at a remote service.

With KB_URL and KB_TOKEN, commands go to that service, and with KB_ACCESS=all an admin sees all of its tenant. They come
from the environment, or from the file that `--env-file` names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.cli.options import named_env_file
from app.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from app.settings import Settings

NAMES = ("KB_URL", "KB_TOKEN", "KB_TENANT", "KB_ACCESS")


@dataclass(frozen=True, slots=True)
class Remote:
    """A service elsewhere; its token determines the tenant. `sees_all`: its admin asks to see all of it."""

    url: str
    token: str = field(repr=False)
    sees_all: bool = False


@dataclass(frozen=True, slots=True)
class Local:
    """A tenant in the database of these settings."""

    settings: Settings
    slug: str


Target = Local | Remote


def choose_target(slug: str) -> Target:
    """The target of a command of a tenant; `slug` is empty where none is given and KB_URL is set.

    Raises InvalidInput for a slug in addition to KB_URL, and ConfigurationError.
    """
    remote = find_remote()
    if remote is None:
        from app.cli.execution import read_settings

        return Local(read_settings(), slug)
    if slug:
        raise InvalidInput.of("--tenant", "must be omitted with KB_URL: KB_TOKEN determines the tenant")
    from app.kernel import forbid_inspection
    from app.telemetry.logs import configure_logging

    forbid_inspection()
    configure_logging("debug" if os.environ.get("LOG_LEVEL") == "debug" else "warning", json=False)
    return remote


def describe_target(target: Target) -> str:
    """The target, for a question whether to delete something there."""
    return f"tenant {target.slug}" if isinstance(target, Local) else f"the token's tenant at {target.url}"


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
            "KB_URL and KB_TOKEN",
            "must come from one source",
            "set both in the environment or both in the file",
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ConfigurationError("KB_URL", "must be an address such as https://knowledge.example.com")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("KB_TOKEN", "must be one line without spaces, as knowledge token prints it")
    return Remote(url.rstrip("/"), token, sees_all=_asks_for_all(values))


def asks_for_all() -> bool:
    """Whether KB_ACCESS asks to see all of the tenant. Raises ConfigurationError."""
    environment, file = _read_variables()
    return _asks_for_all({**file, **environment})


def _asks_for_all(values: Mapping[str, str]) -> bool:
    if (access := values.get("KB_ACCESS")) not in (None, "all"):
        raise ConfigurationError("KB_ACCESS", "must be all, or not set")
    return access is not None


def refuse_remote() -> None:
    """Raise ConfigurationError if KB_URL is set, for a command that needs the service's own database."""
    environment, file = _read_variables()
    if "KB_URL" in environment or "KB_URL" in file:
        raise ConfigurationError(
            "KB_URL",
            "is set, but this command needs the database of the service",
            "unset KB_URL, and run the command where the service runs",
        )


def default_tenant() -> str | None:
    """The slug of KB_TENANT; empty if the token determines the tenant; None if a command needs one."""
    environment, file = _read_variables()
    values = {**file, **environment}
    return "" if "KB_URL" in values else values.get("KB_TENANT")


def _read_variables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The variables of this module that are not empty: of the environment, and of the file."""
    file: Mapping[str, str] = {}
    if (path := named_env_file.get()) is not None:
        from app.settings.env_file import read_env_file

        file = read_env_file(path)
    environment, named = (
        {name: value for name in NAMES if (value := source.get(name, "").strip())}
        for source in (os.environ, file)
    )
    return environment, named
