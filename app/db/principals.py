"""Keep the principals and rights of the running work; each tenant transaction passes them to the database.

Work that names no principal sees only what all readers of the tenant may read, and the log warns of it once.
"""

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

log = logging.getLogger(__name__)

EVERYONE = "everyone"
SERVICE = ("*", EVERYONE)
"""The principals of the service itself, and of an admin who asks to see all: they see every row of the tenant."""


class Rights(Enum):
    """The rights of a transaction: the database role that it runs as."""

    READ = "kb_reader"
    """Reading, and writing what readers own: saved searches, subscriptions, feedback."""
    WRITE = "kb_creator"
    """Also writing knowledge."""
    ADMINISTER = "kb_admin"
    """Also the settings of the tenant, revoked tokens, erasures and changes of the model."""
    ALL = "none"
    """The rights of the login role: the service's own work, and programs that do not name their rights."""


Actor = tuple[tuple[str, ...], Rights]

_UNNAMED: Actor = ((), Rights.ALL)
_current: ContextVar[Actor] = ContextVar("principals", default=_UNNAMED)


def current_principals() -> tuple[str, ...]:
    """The principals of the running work; empty if none were set."""
    return _current.get()[0]


def current_rights() -> Rights:
    """The rights of the running work."""
    return _current.get()[1]


def name_user(subject: str) -> str:
    """The principal of a user, by the `sub` of its tokens."""
    return f"user:{subject}"


def name_group(name: str) -> str:
    """The principal of a group, by its name in the tokens."""
    return f"group:{name}"


def principals_of(subject: str, groups: Iterable[str]) -> tuple[str, ...]:
    """The principals of a caller."""
    return (EVERYONE, name_user(subject), *map(name_group, sorted(groups)))


def act_as(principals: tuple[str, ...], rights: Rights = Rights.ALL) -> None:
    """Let the running task, and tasks that it starts, work for these principals from now on."""
    _current.set((principals, rights))


@contextmanager
def acting_as(principals: tuple[str, ...], rights: Rights = Rights.ALL) -> Iterator[None]:
    """Transactions that are opened in the block are of these principals, and have these rights."""
    token = _current.set((principals, rights))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def acting_for_everyone(rights: Rights = Rights.READ) -> Iterator[None]:
    """Transactions that are opened in the block see what all readers of the tenant may read: work for no one person."""
    with acting_as((EVERYONE,), rights):
        yield


@contextmanager
def acting_for_service() -> Iterator[None]:
    """Transactions that are opened in the block see all rows of their tenant: the service's own work."""
    with acting_as(SERVICE):
        yield


def set_actor() -> str:
    """The SQL text that sets the principals and the rights of the running work in a transaction."""
    actor = _current.get()
    if actor is _UNNAMED:
        warn_of_unnamed_work()
    principals, rights = actor
    return set_principals(principals) + set_rights(rights)


@functools.cache
def warn_of_unnamed_work() -> None:
    """Log once that work in a tenant names no principal."""
    log.warning(
        "work in a tenant names no principal: it sees what all readers of the tenant may read; name one with acting_as,"
        " or choose acting_for_everyone or acting_for_service"
    )


def set_rights(rights: Rights) -> str:
    """The SQL text that sets the rights of a transaction."""
    return "" if rights is Rights.ALL else f"select set_config('role', '{rights.value}', true);"


def set_principals(principals: Sequence[str]) -> str:
    """The SQL text that sets the principals of a transaction."""
    # Hexadecimal digits make the literal safe, whatever the names contain.
    items = ",".join('"' + p.replace("\\", "\\\\").replace('"', '\\"') + '"' for p in principals)
    digits = f"{{{items}}}".encode().hex() if principals else ""
    return (
        "select set_config('app.current_principals',"
        f" pg_catalog.convert_from(pg_catalog.decode('{digits}', 'hex'), 'UTF8'), true);"
    )
