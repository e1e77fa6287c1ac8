"""A real HTTP server that speaks the embedding formats of OpenAI and Gemini and answers as scripted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from app.embeddings.models import resolve_model
from app.embeddings.providers.mock import MockProvider


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What the server was sent; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        if "requests" in self.body:
            return [item["content"]["parts"][0]["text"] for item in self.body["requests"]]
        return list(self.body["input"])


Body = bytes | Callable[[WireRequest], bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer; a silent one holds the connection open without a word."""

    status: int = 200
    body: Body = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False


class WireServer:
    """Answers each request with the next reply of the script, or with good vectors when there is none."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.script: list[Reply] = []
        self.requests: list[WireRequest] = []
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: WireRequest) -> Reply:
        self.requests.append(request)
        return self.script.pop(0) if self.script else Reply(body=self.good_body(request))

    def good_body(self, request: WireRequest) -> bytes:
        return encode_rows(request, [vector_of(text, self.dimensions) for text in request.texts])

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serve_wire(dimensions: int) -> Iterator[WireServer]:
    server = WireServer(dimensions)
    try:
        yield server
    finally:
        server.stop()


def vector_of(text: str, dimensions: int) -> list[float]:
    """The vector, of length 3, that the server gives for a text."""
    unit = MockProvider(resolve_model("mock", dimensions=dimensions))._embed(text)
    return [3.0 * float(number) for number in unit]


def encode_rows(request: WireRequest, rows: list[list[float]]) -> bytes:
    """Put vectors into the format that the request was made in (OpenAI's in reverse, told by `index`)."""
    if "requests" in request.body:
        return json.dumps({"embeddings": [{"values": row} for row in rows]}).encode()
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    answer = {"object": "list", "model": "any", "usage": usage, "data": data[::-1]}
    return json.dumps(answer).encode()


def _make_handler(wire: WireServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = WireRequest(self.path, headers, json.loads(self.rfile.read(length)))
            reply = wire.answer(request)
            if reply.silent:
                wire.stopping.wait()
                return
            body = reply.body if isinstance(reply.body, bytes) else reply.body(request)
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    return Handler
