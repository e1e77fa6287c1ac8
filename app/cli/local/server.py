"""The service's side: answers the commands of its user on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from app.cli import add, delete, edit, get, list_, related, search, token, why_not
from app.cli.local.place import Place, find_place
from app.db.principals import SERVICE, act_as
from app.errors import InvalidInput, KnowledgeError

if TYPE_CHECKING:
    from app.composition.services import Services
    from app.settings import Settings

log = logging.getLogger("app.cli.local")

Answer = Callable[["Services", Mapping[str, Any]], Awaitable[Any]]
ANSWERS: Mapping[str, Answer] = {
    "search": search.answer,
    "why-not": why_not.answer,
    "related": related.answer,
    "add": add.answer,
    "get": get.answer,
    "list": list_.answer,
    "edit": edit.answer,
    "delete": delete.answer,
    "token": token.answer,
}
"""The commands that a service answers."""

LONGEST_REQUEST = 1 << 20
"""Bytes; the longest query has 10,000 characters."""

REQUEST_SECONDS = 5.0


@contextlib.asynccontextmanager
async def answering_commands(settings: Settings, services: Services) -> AsyncIterator[None]:
    """Answer commands until the block ends; where that is impossible, they open the database themselves."""
    place = find_place(settings)
    path = None if place is None else place.own_socket()
    if place is None or path is None:
        log.info("commands are not answered", extra={"reason": "there is no private folder for the socket"})
        yield
        return
    commands = _CommandServer(place, services)
    server = await asyncio.start_unix_server(commands.accept, path, limit=LONGEST_REQUEST)
    os.chmod(path, 0o600)
    try:
        yield
    finally:
        server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        await commands.close()


@dataclass(slots=True)
class _CommandServer:
    place: Place
    services: Services
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; the connection ends without an answer to a malformed one."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # The command waits for this line, so that a service that is stopped does not stop it.
            writer.write(b"\n")
            async with asyncio.timeout(REQUEST_SECONDS):
                request = json.loads(await reader.readline())
            if hmac.compare_digest(str(request["key"]), self.place.key):
                writer.write(await self._work(reader, request["command"], request["arguments"]))
                await writer.drain()
        except (OSError, TimeoutError, ValueError, LookupError, TypeError):
            log.debug("a command's request failed", exc_info=True)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _work(self, reader: asyncio.StreamReader, command: str, arguments: Any) -> bytes:
        """The answer; nothing if the command has ended by then, or for an unexpected failure."""
        work = asyncio.ensure_future(_answer(ANSWERS[command], self.services, arguments))
        ended = asyncio.ensure_future(reader.read())
        try:
            await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else b""
        finally:
            for task in (work, ended):
                task.cancel()
            await asyncio.wait((work, ended))

    async def close(self) -> None:
        """End the requests in progress: commands that read open the database, others report an unknown outcome."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _answer(answer: Answer, services: Services, arguments: Mapping[str, Any]) -> bytes:
    act_as(SERVICE)  # a user who enters the folder can open the database
    try:
        return orjson.dumps({"result": await answer(services, arguments)})
    except InvalidInput as error:
        return orjson.dumps({"errors": [[e.field, e.message] for e in error.errors]})
    except KnowledgeError as error:
        return orjson.dumps({"error": str(error)})
    except Exception:
        # A command that reads does the work itself, and reports what happens then.
        log.exception("a command's request failed")
        return b""
