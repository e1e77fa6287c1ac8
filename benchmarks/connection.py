"""A connection to the service under load."""

import asyncio
from urllib.parse import urlsplit

BOUNDARY = "benchmark"


def request_of(url: str, token: str, path: str, body: bytes) -> bytes:
    """The bytes of a request; without a body, the path is read with GET. The body of an upload is its file."""
    kind = "application/json"
    if path == "/knowledge/assets":
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
        body = part.encode() + body + f"\r\n--{BOUNDARY}--\r\n".encode()
    head = (
        f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: {urlsplit(url).hostname}\r\n"
        f"Authorization: Bearer {token}\r\n"
        f"Accept: application/json, text/event-stream\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection:
    """One kept connection that sends requests and reads responses."""

    def __init__(self, url: str, token: str, source: str | None = None) -> None:
        """`source` is the address to connect from."""
        self._source = None if source is None else (source, 0)
        self._url = url
        self._address = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the response. Raises OSError, IncompleteReadError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self._address.hostname, self._address.port, local_addr=self._source
            )
        reader, writer = self._streams
        try:
            writer.write(request_of(self._url, self._token, path, body))
            answer = await reader.readuntil(b"\r\n\r\n")
            content = await reader.readexactly(
                int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            )
        except BaseException:
            self.close()
            raise
        return int(answer.split(b" ", 2)[1]), content

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
