"""The door of a command to the service: the same HTTP over one of three ways.

With KB_URL, requests go over the network. Without it, they go through the Unix socket of the running service of the
same user; its name and the key of each request derive from everything that determines an answer (`app.cli.place`).
Where no service answers, the API runs in this process, with the same result. A request that writes is sent on only if
no service has received it; otherwise it could be done twice.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote
from uuid import UUID

from app import errors
from app.cli.execution import Local, Remote, Target, open_service, open_tenants
from app.cli.output.failures import Interrupted
from app.cli.output.progress import show_waiting
from app.cli.place import find_place
from app.contract.vocabulary import LOOKS_ONLY_HEADER, TENANT_HEADER
from app.errors import KnowledgeError, ServiceUnreachable
from knowledge_client.caller import Caller
from knowledge_client.errors import KnowledgeError as ClientError
from knowledge_client.errors import ProblemError, UnexpectedAnswer
from knowledge_client.errors import ServiceUnreachable as Unanswered
from knowledge_client.exchange import Exchange
from knowledge_client.retries import Retries
from knowledge_client.tokens import find_headers
from knowledge_client.transport import NotAnswered, Request, Response, Transport

if TYPE_CHECKING:
    import asyncio

    from fastapi import FastAPI

    from app.composition.services import Services
    from app.settings import Settings

T = TypeVar("T")
SECONDS = 120.0
"""Longest wait for an answer, or for its next part: a large manifest is planned in one request."""
CONNECT_SECONDS = 10.0
KNOCK_SECONDS = 1.0
"""Longest wait for the sign that a local service is not stopped."""
RETRIES = Retries(longest=60.0)
"""Over the network; a command that would have to wait longer before its next attempt fails with a message."""
MAX_PAGE = 200
UNASKED = 32 << 20
"""Bytes of a file that is sent to a service elsewhere without a question for its limit; it refuses these well."""
LARGEST = 1 << 30
"""Bytes of a file that is sent to a service that does not tell its limit."""
UNKNOWN = (
    "so it is not known whether this was done: look with `knowledge get` or `knowledge list` before you repeat the"
    " command"
)


class Door:
    """Runs calls of the client over one transport. Its methods raise the KnowledgeError that the service reports."""

    def __init__(self, target: Target, transport: Transport) -> None:
        self._target = target
        self._transport = transport
        remote = target if isinstance(target, Remote) else None
        access = find_headers("all" if remote and remote.sees_all else None, variable=False)
        self._caller = Caller(
            self, remote.token if remote else None, access, RETRIES if remote else Retries(attempts=1)
        )
        self._sent: Request | None = None
        self._limit: str | None = None
        self._looks_only = False
        self.answer = b""
        """The content of the last answer."""
        self.status = 0
        """The status of the last answer."""

    @property
    def is_local(self) -> bool:
        """Whether the service works on the database of this installation."""
        return isinstance(self._target, Local)

    @cached_property
    def upload_limit(self) -> int:
        """The bytes of the largest file that the service accepts."""
        if isinstance(self._target, Local):
            return self._target.settings.ingestion.max_upload_bytes
        self.look(_read("/knowledge/assets", {"limit": 1}))
        found = re.search(r"max-size=(\d+)", self._limit or "")
        return int(found[1]) if found else LARGEST

    @property
    def max_deletions(self) -> float:
        """The share of the assets of a source that a run may delete; a service elsewhere does not report its own."""
        return self._target.settings.ingestion.source_max_deletions if isinstance(self._target, Local) else 0.2

    def check_size(self, size: int) -> None:
        """Raise TooLarge for a file that the service would refuse, before it is read."""
        if (self.is_local or size > UNASKED) and size > self.upload_limit:
            raise errors.TooLarge(f"the file is larger than the limit of {self.upload_limit} bytes")

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send a request of the client, and keep its answer. Raises NotAnswered."""
        self._sent = request
        own = {LOOKS_ONLY_HEADER: "1"} if self._looks_only and self.is_local else {}
        response = self._transport.send(request, {**headers, **own})
        self.answer, self.status = response.content, response.status_code
        self._limit = response.find_header("upload-limit")
        return response

    def run(self, exchange: Exchange[T]) -> T:
        """Run a call of the client."""
        try:
            return self._caller.run(exchange)
        except ClientError as error:
            raise self._translate(error) from error

    def fetch(self, exchange: Exchange[Any]) -> None:
        """Send the request of a call, and keep its answer as it is, which is faster than to read it."""
        self.run(_send_first(exchange))

    def look(self, exchange: Exchange[T]) -> T:
        """Run a call that the user of a local command did not ask for, and the audit trail need not record."""
        self._looks_only = True
        try:
            return self.run(exchange)
        finally:
            self._looks_only = False

    def work(self, do: Callable[[Services, UUID], Coroutine[Any, Any, T]]) -> T:
        """Do work that is not part of the API with the services of this process, which it is opened for."""
        assert isinstance(self._transport, LocalWay)
        return self._transport.here.work(do)

    def read_all(self, path: str, *, looks_only: bool = False) -> list[Any]:
        """The items of all pages of a list, as JSON."""
        items: list[Any] = []
        cursor = None
        while True:
            (self.look if looks_only else self.run)(_read(path, {"limit": MAX_PAGE, "cursor": cursor}))
            page = self.read_answer()
            items += page["items"]
            if (cursor := page["next_cursor"]) is None:
                return items

    def read_answer(self) -> Any:
        """The last answer, as JSON."""
        import orjson

        return orjson.loads(self.answer)

    def _translate(self, error: ClientError) -> KnowledgeError:
        if isinstance(error, ProblemError):
            return read_refusal(error, elsewhere=not self.is_local)
        if isinstance(error, Unanswered):
            doubtful = error.may_be_done and not _only_reads(self._sent)
            if isinstance(self._target, Remote):
                reason = f"KB_URL: no answer from {self._target.url} ({explain(error.__cause__)})"
                return ServiceUnreachable(f"{reason}, {UNKNOWN}" if doubtful else reason)
            return ServiceUnreachable(f"the running service ended before it answered, {UNKNOWN}")
        if isinstance(error, UnexpectedAnswer) and isinstance(self._target, Remote):
            return KnowledgeError(
                f"KB_URL: the answer of {self._target.url} is not one that this version of the command reads;"
                " check the address, and that the command is not older than the service"
            )
        return KnowledgeError(str(error))


def _read(path: str, params: Mapping[str, Any]) -> Exchange[None]:
    yield Request("GET", path, params=params)


def _send_first(exchange: Exchange[Any]) -> Exchange[None]:
    yield next(exchange)
    exchange.close()


def _only_reads(request: Request | None) -> bool:
    return request is None or request.method == "GET" or request.path.startswith("/knowledge/search")


@contextlib.contextmanager
def open_door(
    target: Target,
    *,
    doing: str | None = None,
    works: bool = False,
    platform: bool = False,
    creates: bool = False,
    here: bool = False,
) -> Iterator[Door]:
    """Open the door to a tenant, or to the platform. Ctrl-C and SIGTERM end the request and the command.

    `doing` is shown on a terminal after a second. If the API has to run in this process, a worker runs with it where
    the command `works`, that is, waits for work of the service; it opens no embedding model for paths of the `platform`
    that need none, nor for a command that `creates` a tenant, and perhaps the database. With `here`, it runs in this
    process in any case, for work that is not part of it.
    """
    with (
        _interruptible(),
        contextlib.nullcontext() if doing is None else show_waiting(doing),
        contextlib.ExitStack() as stack,
    ):
        if isinstance(target, Remote):
            yield Door(target, stack.enter_context(_open_network(target)))
            return
        asks = not here and (not works or target.settings.ingestion.worker)
        yield Door(target, LocalWay(target, stack, asks=asks, works=works, platform=platform, creates=creates))


@contextlib.contextmanager
def _open_network(remote: Remote) -> Iterator[Transport]:
    import httpx

    from knowledge_client.http import HttpTransport

    # Redirects are not followed, because they would take the token elsewhere.
    timeout = httpx.Timeout(SECONDS, connect=CONNECT_SECONDS)
    try:
        http = httpx.Client(timeout=timeout, follow_redirects=False)
    except OSError:
        raise errors.ConfigurationError("SSL_CERT_FILE", "must be a file with certificates in the format PEM") from None
    with http:
        yield HttpTransport(remote.url, SECONDS, http)


class LocalWay:
    """Sends requests to the running service, or else to the API in this process, from then on."""

    def __init__(
        self, target: Local, stack: contextlib.ExitStack, *, asks: bool, works: bool, platform: bool, creates: bool
    ) -> None:
        self._target = target
        self._stack = stack
        self._socket = SocketWay(target) if asks else None
        self._works, self._platform, self._creates = works, platform, creates

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send a request. Raises NotAnswered if a service may have done what a request that writes asks for."""
        if self._socket is not None:
            try:
                return self._socket.send(request, headers)
            except NotAnswered as error:
                if error.sent and not _only_reads(request):
                    raise
                self._socket = None
        return self.here.send(request, headers)

    @cached_property
    def here(self) -> ProcessWay:
        """The API in this process, which is opened when it is first needed."""
        import asyncio

        from anyio.from_thread import start_blocking_portal

        portal = self._stack.enter_context(start_blocking_portal())
        opening = _open_api(self._target.settings, works=self._works, platform=self._platform, creates=self._creates)
        app = self._stack.enter_context(portal.wrap_async_context_manager(opening))
        return ProcessWay(app, portal.call(asyncio.get_running_loop), self._target.slug)


class _SocketConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=KNOCK_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class SocketWay:
    """Sends each request to the first socket of this place at which a service answers."""

    def __init__(self, target: Local) -> None:
        self._place = find_place(target.settings)
        self._slug = target.slug

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send a request. Raises NotAnswered."""
        if self._place is not None:
            own = {"Authorization": f"Bearer {self._place.key}"}
            for path in self._place.list_sockets():
                with contextlib.closing(_SocketConnection(path)) as connection:
                    if _answers(connection, own):
                        if self._slug is not None:
                            own[TENANT_HEADER] = quote(self._slug, safe="")
                        return _exchange(connection, request, {**headers, **own})
        raise NotAnswered("no service answers for these settings", sent=False)


def _answers(connection: _SocketConnection, headers: Mapping[str, str]) -> bool:
    """Whether a service answers in time, so that one that is stopped does not stop the command."""
    try:
        connection.request("GET", "/", headers=dict(headers))
        answer = connection.getresponse()
        answer.read()
    except (OSError, HTTPException):
        return False
    if answer.status != 204 or connection.sock is None:
        return False
    connection.sock.settimeout(SECONDS)
    return True


def _exchange(connection: _SocketConnection, request: Request, headers: Mapping[str, str]) -> Response:
    with request.open_body() as body:
        try:
            # A body that is refused before its end is answered, too.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(request.method, request.target, body.content, {**body.headers, **headers})
            answer = connection.getresponse()
            return Response(answer.status, answer.getheaders(), answer.read())
        except (OSError, HTTPException) as error:
            raise NotAnswered(type(error).__name__, sent=True) from error


@contextlib.asynccontextmanager
async def _open_api(settings: Settings, *, works: bool, platform: bool, creates: bool) -> AsyncIterator[FastAPI]:
    from app.api.application import create_private_api
    from app.composition.platform import open_platform
    from app.db.principals import SERVICE, act_as

    act_as(SERVICE)  # a user who runs commands here can open the database
    shows_all = logging.getLogger("app").isEnabledFor(logging.DEBUG)
    async with contextlib.AsyncExitStack() as stack:
        # The command reports a failure itself, in one line.
        for log in (logging.getLogger("app.api"), logging.getLogger("app.db.outage")):
            stack.callback(log.setLevel, log.level)
            log.setLevel(logging.NOTSET if shows_all else logging.CRITICAL)
        if creates:
            services: Any = await stack.enter_async_context(open_platform(settings, for_creation=True))
        elif platform:
            services = await stack.enter_async_context(open_tenants(settings))
        else:
            services = await stack.enter_async_context(open_service(settings))
            if works:
                from app.composition.services import working

                await stack.enter_async_context(working(services))
        yield create_private_api(services, max_upload_bytes=settings.ingestion.max_upload_bytes)


class ProcessWay:
    """Sends requests to an application in this process, whose loop runs in another thread."""

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop, slug: str | None) -> None:
        self._app = app
        self._loop = loop
        self._slug = slug

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send a request. Raises NotAnswered if the application ends without an answer."""
        with request.open_body() as body:
            content = body.content
            parts = [content] if content is None or isinstance(content, bytes) else content
            return self._run(self._serve(request, {**body.headers, **headers}, parts))

    def work(self, do: Callable[[Services, UUID], Coroutine[Any, Any, T]]) -> T:
        """Do work with the services of a tenant. Raises TenantNotFound."""

        async def act() -> T:
            from app.db.principals import SERVICE, act_as

            act_as(SERVICE)  # a user who runs commands here can open the database
            services: Services = self._app.state.parts.services
            return await do(services, (await services.tenants.find(self._slug or "")).id)

        return self._run(act())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        import asyncio

        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _serve(self, request: Request, headers: Mapping[str, str], parts: Iterable[bytes | None]) -> Response:
        from app.web.insiders import INSIDER, Insider

        path, _, query = request.target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": request.method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": None,
            "server": None,
            INSIDER: Insider(self._slug, LOOKS_ONLY_HEADER in headers),
        }
        left = iter(parts)
        start: dict[str, Any] = {}
        received: list[bytes] = []
        ended = False

        async def receive() -> dict[str, Any]:
            part = next(left, None)
            return {"type": "http.request", "body": part or b"", "more_body": part is not None}

        async def send(message: Mapping[str, Any]) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                received.append(message.get("body", b""))
                ended = not message.get("more_body", False)

        await self._app(scope, receive, send)
        if not ended:
            raise NotAnswered("the request ended without an answer", sent=True)
        shown = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        return Response(start["status"], shown, b"".join(received))


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """The first signal ends the block; further ones do not disturb its cleanup."""
    signalled = False

    def stop(*_: object) -> None:
        nonlocal signalled
        if not signalled:
            signalled = True
            raise Interrupted

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def read_refusal(error: ProblemError, *, elsewhere: bool) -> KnowledgeError:
    """The error that the service reported; a plain one for an answer that is not the service's, or of a newer one."""
    from app.contract.problems import TYPES

    problem = error.problem
    if problem.type == "about:blank":
        return KnowledgeError(
            f"KB_URL: the answer has the status {problem.status} and is not one of the service; check the address"
        )
    kind = next((each.error for each in TYPES.values() if each.uri == problem.type), None)
    # A header is an option of programs; people set the variable.
    detail = problem.detail.replace("send X-KB-Access: all (KB_ACCESS=all for commands)", "set KB_ACCESS=all")
    if problem.status == 500 and not elsewhere:
        return KnowledgeError(f"{detail}; LOG_LEVEL=debug shows where")
    if kind is None or issubclass(kind, errors.ProviderUnavailable):
        return KnowledgeError(detail)
    if issubclass(kind, errors.InvalidInput):
        found = [errors.FieldError(e.field, e.message) for e in error.errors]
        return errors.InvalidInput(found or [errors.FieldError("request", detail)])
    if issubclass(kind, errors.RateLimited):
        return errors.RateLimited(detail, error.retry_after or 1.0, problem.limit)
    if issubclass(kind, errors.EntryExists | errors.AssetExists):
        return kind(detail, problem.existing_id)
    if issubclass(kind, errors.TooManyDeletions):
        return errors.TooManyDeletions(detail, problem.deletions or 0, problem.assets or 0)
    if elsewhere and issubclass(kind, errors.Unauthenticated):
        return errors.Unauthenticated(f"KB_TOKEN: {detail}")
    return kind(detail)


def explain(error: BaseException | None) -> str:
    """The reason of a failed connection, as far as the system reports it."""
    cause = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS at this port: {(getattr(cause, 'reason', None) or 'failed').replace('_', ' ').lower()}"
        if isinstance(cause, socket.gaierror):
            return "the name of the host is not known"
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused"
        cause = cause.__cause__ or cause.__context__
    name = type(error).__name__
    return "it took too long" if name.endswith("Timeout") else name
