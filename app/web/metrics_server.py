"""Serves the metrics at an address of their own, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from app.web.monitoring import FromOtherThreads, Observation

BACKLOG = 16


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Several processes may accept at the same listener: it does not block, and another one may be faster."""

    daemon_threads = True

    def __init__(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = host, port
        self.setup_environ()


@contextlib.contextmanager
def serve_metrics(observation: Observation, listener: socket.socket) -> Iterator[None]:
    """Serve `/metrics` at the listener while the block runs, and close it."""
    registry = CollectorRegistry()
    registry.register(FromOtherThreads(observation, asyncio.get_running_loop()))
    listener.listen(BACKLOG)
    with _Server(listener) as server:
        server.set_app(make_wsgi_app(registry))
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
