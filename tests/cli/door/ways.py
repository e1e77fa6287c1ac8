"""The three ways of a command to a service: the network, the private socket of the service, and this process."""

import asyncio
import contextlib
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, Literal, TypeVar

import pytest
import uvloop

from app.auth.issuing import issue_token
from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.cli import door
from app.cli.serve.private import serving_commands
from app.composition.services import Services, open_services
from app.contract.administration import NewTenant, Tenant
from app.db.rows import new_id
from app.main import create_app
from app.settings import Settings
from tests.cli.conftest import SECRET, CommandLine, Result
from tests.fixtures.http.serving import serve

T = TypeVar("T")
Way = Literal["network", "socket", "process"]
WAYS: Sequence[Way] = ("network", "socket", "process")

VARYING: Mapping[str, str] = {
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}": "ID",
    r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00| UTC)?": "TIME",
    r"\d+ ms": "N ms",
    r"((?:_ms|passages_in_tenant)\":)\d+": r"\1N",
    r"(cursor\":\"|--cursor )[\w-]+": r"\1CURSOR",
    # Progress: whether there is some to show depends on time.
    r"(?m)^\w+: \d+ of \d+ \(.*\)\n": "",
    r"\b(?:ada|command-line)\b": "ACTOR",
    "the token's tenant": "tenant TENANT",
}


@dataclass(frozen=True, slots=True)
class Served:
    """A service with a worker, on a port and at its private socket."""

    url: str
    services: Services
    loop: asyncio.AbstractEventLoop

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the loop of the service."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def new_tenant(self) -> Tenant:
        return self.ask(self.services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test"))


@contextlib.contextmanager
def run_served(settings: Settings) -> Iterator[Served]:
    """Serve with these settings until the block ends."""
    started: Future[Served] = Future()
    stop = asyncio.Event()

    async def main() -> None:
        async with open_services(settings) as services:
            app = create_app(settings, services, TokenVerifier(secret=SECRET))
            async with serve(app) as url, serving_commands(settings, app):
                started.set_result(Served(url, services, asyncio.get_running_loop()))
                await stop.wait()

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = Thread(target=work)
    thread.start()
    try:
        served = started.result(60)
        yield served
        served.loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(60)


@dataclass(frozen=True, slots=True)
class Ways:
    """Runs commands in a new tenant over one of the ways, and makes sure that it is that one."""

    knowledge: CommandLine
    served: Served

    @contextlib.contextmanager
    def over(self, way: Way, *roles: Role, sees_all: bool = True) -> Iterator[Tenant]:
        """In the block, commands go this way to a new tenant; over the network with a token with these roles."""
        tenant = self.served.new_tenant()
        with pytest.MonkeyPatch.context() as changed:
            if way == "network":
                platform = Role.PLATFORM_ADMIN in roles
                chosen = roles or (Role.TENANT_ADMIN,)
                token = issue_token(
                    SECRET, tenant_id=None if platform else tenant.id, roles=chosen, subject="ada", ttl=600
                )
                changed.setenv("KB_URL", self.served.url)
                changed.setenv("KB_TOKEN", token)
                changed.setenv("NO_PROXY", "127.0.0.1")
                if sees_all and not platform:
                    changed.setenv("KB_ACCESS", "all")
            else:
                changed.setenv("KB_TENANT", tenant.slug)
            if way == "process":
                # Another place, with the same results.
                changed.setenv("KB_LIMIT_REQUESTS_PER_MINUTE", "12345")
                changed.setattr(door.SocketWay, "_exchange", None, raising=False)
            else:
                changed.setattr(door, "_open_api", None)
            yield tenant

    def run(self, way: Way, script: Sequence[Sequence[str]], *roles: Role) -> list[Result]:
        """The results of commands in a new tenant; `{id}` is the id of the first item of the result before."""
        results: list[Result] = []
        with self.over(way, *roles) as tenant:
            for command in script:
                found = results[-1].out if results else ""
                ids = re.findall(r'"id":"([0-9a-f-]{36})"', found)
                results.append(self.knowledge(*(part.replace("{id}", ids[0] if ids else "") for part in command)))
            return [_simplify(result, tenant) for result in results]


def _simplify(result: Result, tenant: Tenant) -> Result:
    """The result without what differs from run to run."""
    out, err = (text.replace(tenant.slug, "TENANT") for text in (result.out, result.err))
    for pattern, shown in VARYING.items():
        out, err = re.sub(pattern, shown, out), re.sub(pattern, shown, err)
    return Result(result.status, out, err)
