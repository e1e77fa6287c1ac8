"""When a call is sent again: the steps alone, without waiting, and both clients that run them."""

import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from knowledge_client import (
    AsyncKnowledgeClient,
    KnowledgeClient,
    KnowledgeError,
    NotAnswered,
    NotFound,
    ProblemError,
    RateLimited,
    Request,
    Response,
    Retries,
    ServiceUnavailable,
    ServiceUnreachable,
    Unauthenticated,
    UnexpectedAnswer,
    assets,
    entries,
    searches,
)
from knowledge_client.errors import read_retry_after
from knowledge_client.exchange import Attempt, Exchange, Pause, perform
from tests.client.callers import make_client
from tests.client.scripted import ScriptedTransport, answer, refusal

BROKEN = NotAnswered("broken", sent=True)
REFUSED = NotAnswered("refused", sent=False)
ID = uuid4()
FEEDBACK = {"search_id": str(ID), "entry_id": str(ID), "relevant": True, "at": "2026-01-15T09:30:00Z"}
QUICK = Retries(attempts=3, first=0.001)


def give_feedback() -> Exchange[Any]:
    return searches.give_feedback(ID, ID, relevant=True)


def walk(exchange: Exchange[Any], retries: Retries, *outcomes: Any) -> tuple[Any, list[float]]:
    """Run a call on given outcomes without waiting; return its result and the pauses."""
    left, pauses = list(outcomes), []
    steps = perform(exchange, retries, renewable=False)
    outcome = None
    try:
        while True:
            match steps.send(outcome):
                case Pause(seconds):
                    pauses.append(seconds)
                    outcome = None
                case Attempt():
                    outcome = left.pop(0)
                    if isinstance(outcome, httpx.Response):
                        outcome = Response(outcome.status_code, outcome.headers.multi_items(), outcome.content)
    except StopIteration as end:
        assert not left
        return end.value, pauses
    except Exception as error:
        assert not left
        return error, pauses


@pytest.mark.parametrize("outcome", [BROKEN, REFUSED, refusal(429), refusal(503), refusal(502)], ids=repr)
def test_a_call_that_is_safe_to_repeat_is_repeated(outcome: Any) -> None:
    result, pauses = walk(give_feedback(), Retries(), outcome, answer(200, FEEDBACK))
    assert result.relevant is True
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("outcome", "kind"), [(refusal(500), ProblemError), (refusal(404), NotFound), (refusal(401), Unauthenticated)]
)
def test_other_refusals_are_final(outcome: httpx.Response, kind: type[Exception]) -> None:
    result, pauses = walk(give_feedback(), Retries(), outcome)
    assert type(result) is kind
    assert pauses == []


UNREPEATABLE: list[Callable[[], Exchange[Any]]] = [
    lambda: entries.change_entry(ID, if_version=1, tags=[]),
    lambda: assets.retry_asset(ID),
    lambda: searches.subscribe(ID, "https://example.com"),
]


@pytest.mark.parametrize("define", UNREPEATABLE)
def test_a_call_that_may_have_succeeded_is_not_repeated(define: Callable[[], Exchange[Any]]) -> None:
    assert isinstance(walk(define(), Retries(), BROKEN)[0], ServiceUnreachable)
    assert isinstance(walk(define(), Retries(), refusal(503))[0], ServiceUnavailable)


@pytest.mark.parametrize("define", UNREPEATABLE)
@pytest.mark.parametrize("outcome", [REFUSED, refusal(429)], ids=["connect", "429"])
def test_a_call_that_was_refused_before_it_began_is_repeated(define: Callable[[], Exchange[Any]], outcome: Any) -> None:
    assert len(walk(define(), Retries(attempts=2), outcome, refusal(404))[1]) == 1


def test_a_stream_that_cannot_be_rewound_is_sent_once() -> None:
    class Pipe(io.RawIOBase):
        def seekable(self) -> bool:
            return False

    error, pauses = walk(assets.upload_asset(Pipe(), name="a.txt"), Retries(), BROKEN)  # type: ignore[arg-type]
    assert isinstance(error, ServiceUnreachable)
    assert pauses == []


def test_a_failure_tells_whether_the_request_may_be_done() -> None:
    once, twice = Retries(attempts=1), Retries(attempts=2)
    for retries, outcomes, may_be_done in (
        (once, [REFUSED], False),
        (once, [BROKEN], True),
        (twice, [REFUSED, REFUSED], False),
        (twice, [BROKEN, REFUSED], True),
        (twice, [refusal(429), REFUSED], False),
        (twice, [refusal(503), REFUSED], True),
    ):
        error = walk(entries.create_entry("a"), retries, *outcomes)[0]
        assert isinstance(error, ServiceUnreachable)
        assert error.may_be_done is may_be_done, outcomes


def test_pauses_double_up_to_the_maximum_and_vary() -> None:
    slow = Retries(attempts=6, first=1.0, longest=5.0, draw=lambda: 1.0)
    assert walk(give_feedback(), slow, *[BROKEN] * 6)[1] == [1.0, 2.0, 4.0, 5.0, 5.0]
    quick = Retries(attempts=6, first=1.0, longest=5.0, draw=lambda: 0.0)
    assert walk(give_feedback(), quick, *[BROKEN] * 6)[1] == [0.5, 1.0, 2.0, 2.5, 2.5]


def test_retry_after_is_waited_for_and_jitter_only_adds() -> None:
    late = Retries(first=1.0, draw=lambda: 0.5)
    result, pauses = walk(give_feedback(), late, refusal(429, retry_after="7"), answer(200, FEEDBACK))
    assert result.relevant is True
    assert pauses == [7.5]


def test_a_retry_after_beyond_the_longest_pause_is_left_to_the_caller() -> None:
    error, pauses = walk(give_feedback(), Retries(longest=30), refusal(429, retry_after="31"))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 31
    assert pauses == []


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    assert read_retry_after("2.5") == 2.5
    in_a_minute = datetime.now(UTC) + timedelta(seconds=60)
    assert 50 < (read_retry_after(format_datetime(in_a_minute, usegmt=True)) or 0) <= 60
    assert read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert [read_retry_after(value) for value in (None, "soon", "nan", "inf")] == [None] * 4


def test_a_repeated_deletion_that_finds_nothing_succeeds() -> None:
    assert walk(entries.delete_entry(ID), Retries(), BROKEN, refusal(404))[0] is None
    assert isinstance(walk(entries.delete_entry(ID), Retries(), refusal(404))[0], NotFound)
    refused_before = walk(entries.delete_entry(ID), Retries(), refusal(429), refusal(404))[0]
    assert isinstance(refused_before, NotFound)


def test_an_answer_from_another_server_is_named() -> None:
    page = httpx.Response(200, text="<html>Log in</html>")
    unexpected = walk(give_feedback(), Retries(), page)[0]
    assert isinstance(unexpected, UnexpectedAnswer)
    assert str(unexpected) == "POST /knowledge/feedback: the answer does not have the expected form"
    gateway = httpx.Response(403, text="<html>No entry</html>")
    error = walk(give_feedback(), Retries(), gateway)[0]
    assert isinstance(error, ProblemError)
    assert (error.status, error.detail) == (403, "<html>No entry</html>")


async def test_a_client_waits_and_sends_the_same_again(kind: str) -> None:
    script = ScriptedTransport(refusal(503, retry_after="0"), httpx.ReadError("broken"), answer(200, FEEDBACK))
    call = make_client(kind, "http://service.test", "t", retries=QUICK, transport=script)
    assert (await call("give_feedback", ID, ID, relevant=True)).relevant
    await call.close()
    assert script.asked == ["POST /knowledge/feedback"] * 3
    assert len(set(script.bodies)) == 1


async def test_an_upload_is_sent_again_in_full(kind: str) -> None:
    script = ScriptedTransport(refusal(503), refusal(404))
    call = make_client(kind, "http://service.test", "t", retries=QUICK, transport=script)
    with pytest.raises(NotFound):
        await call("upload_asset", io.BytesIO(b"all of it"), name="a.txt", tags=["x", "y"])
    await call.close()
    assert all(b"all of it" in body and body.count(b'name="tags"') == 2 for body in script.bodies)


async def test_a_token_is_requested_once_and_again_after_401(kind: str) -> None:
    given = iter(["first", "second"])
    script = ScriptedTransport(answer(200, FEEDBACK), refusal(401), answer(200, FEEDBACK), refusal(401), refusal(401))
    call = make_client(kind, "http://service.test", lambda: next(given, "third"), transport=script)
    for _ in range(2):
        await call("give_feedback", ID, ID, relevant=True)
    with pytest.raises(Unauthenticated):
        await call("give_feedback", ID, ID, relevant=True)
    await call.close()
    assert script.tokens == ["first", "first", "second", "second", "third"]


async def test_a_token_that_no_header_can_have_is_refused_without_showing_it(kind: str) -> None:
    script = ScriptedTransport(answer(200, FEEDBACK))
    call = make_client(kind, "http://service.test", "secret-1\n", transport=script)
    await call("give_feedback", ID, ID, relevant=True)
    await call.close()
    assert script.tokens == ["secret-1"]
    for token in ("secret-1\nX: y", "secrét-1", "secret 1"):
        call = make_client(kind, "http://service.test", token, transport=script)
        with pytest.raises(KnowledgeError, match="token: must be ASCII") as refused:
            await call("give_feedback", ID, ID, relevant=True)
        await call.close()
        assert "1" not in str(refused.value)


async def test_a_token_may_come_from_a_coroutine() -> None:
    async def fetch_token() -> str:
        return "fetched"

    script = ScriptedTransport(answer(200, FEEDBACK))
    call = make_client("async", "http://service.test", fetch_token, transport=script)
    await call("give_feedback", ID, ID, relevant=True)
    await call.close()
    assert script.tokens == ["fetched"]


async def test_a_service_that_is_down_is_unreachable(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    call = make_client(kind, f"http://127.0.0.1:{port}", "t", retries=QUICK)
    with pytest.raises(ServiceUnreachable, match="ConnectError") as failed:
        await call("search", "harbour")
    await call.close()
    assert isinstance(failed.value.__cause__, httpx.ConnectError)
    assert not failed.value.may_be_done


async def test_a_large_bulk_is_sent_in_parts_within_the_services_limit(kind: str) -> None:
    def results(count: int) -> httpx.Response:
        return answer(200, {"results": [{"index": i, "id": None, "status": "failed"} for i in range(count)]})

    script = ScriptedTransport(results(1000), results(1), results(8), results(1))
    call = make_client(kind, "http://service.test", "t", transport=script)
    many = await call("create_entries", ({"content": f"{n}"} for n in range(1001)))
    long = await call("create_entries", [{"content": "x" * 2_000_000} for _ in range(9)])
    await call.close()
    assert [r.index for r in many] == list(range(1001))
    assert [r.index for r in long] == list(range(9))
    assert all(len(body) <= 17 * 1024 * 1024 for body in script.bodies)


def test_a_lent_client_stays_open_and_an_own_one_is_closed() -> None:
    with httpx.Client(transport=ScriptedTransport()) as http:
        with KnowledgeClient("http://service.test", "t", http=http):
            pass
        assert not http.is_closed
    own = KnowledgeClient("http://service.test", "t")
    with own:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        own.search("harbour")


class Recorder:
    """A transport of another kind: it answers each request with feedback, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str]]] = []

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        self.got.append((f"{request.method} {request.target}", dict(headers)))
        return Response(200, [], json.dumps(FEEDBACK).encode())


class AsyncRecorder(Recorder):
    """The same for the async client."""

    async def send(self, request: Request, headers: Mapping[str, str]) -> Response:  # type: ignore[override]
        return super().send(request, headers)


async def test_another_transport_carries_the_calls_without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "TOKEN", "ACCESS"):
        monkeypatch.setenv(f"KB_{name}", "all")
    blocking, waiting = Recorder(), AsyncRecorder()
    with KnowledgeClient(transport=blocking) as client:
        client.give_feedback(ID, ID, relevant=True)
    async with AsyncKnowledgeClient(token="t", access="all", transport=waiting) as async_client:
        await async_client.give_feedback(ID, ID, relevant=True)
    assert blocking.got == [("POST /knowledge/feedback", {})]
    assert waiting.got == [("POST /knowledge/feedback", {"X-KB-Access": "all", "Authorization": "Bearer t"})]


def test_a_request_names_its_parameters_and_body_for_any_transport() -> None:
    request = next(entries.list_entries(limit=2, tag="a b&c", include_expired=True))
    assert isinstance(request, Request)
    assert request.target == "/knowledge/entries?limit=2&tag=a%20b%26c&include_expired=true"
    upload = next(assets.upload_asset(b"x" * 200_000, name='a "b"\\c.txt', tags=["x", "y"], metadata={"é": 1}))
    assert isinstance(upload, Request)
    with upload.open_body() as body:
        assert not isinstance(body.content, bytes | None)
        sent, again = b"".join(body.content), b"".join(body.content)
    part = ('a "b"\\c.txt', b"x" * 200_000, "text/plain")
    boundary = body.headers["Content-Type"].partition("=")[2]
    lists: Any = {name: list(value) for name, value in upload.form.items() if isinstance(value, list)}
    same = httpx.Request(
        "POST",
        "http://service.test",
        data={**lists, "metadata": upload.form["metadata"]},
        files={"file": part},
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    assert sent == again == same.read()
    assert body.headers["Content-Length"] == str(len(sent))


def test_httpx_is_loaded_only_for_the_default_transport() -> None:
    code = """
import sys
from knowledge_client import KnowledgeClient
KnowledgeClient(transport=object())
assert "httpx" not in sys.modules
KnowledgeClient("http://service.test", "t")
assert "httpx" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(searches.__file__).parents[1], check=True)
