"""What a client sends and receives, whatever carries it: the network, a Unix socket, an application in this process."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from knowledge_client.answers import write_json

PIECE = 1 << 16
"""Bytes of a file that are read at once."""


class Attachment(NamedTuple):
    """A file to upload: a path, bytes, or an open binary file, which is sent from its beginning."""

    source: str | os.PathLike[str] | bytes | BinaryIO
    name: str
    media_type: str | None

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file's bytes, any number of times. Raises OSError, and TypeError for a file opened as text."""
        source: Any = self.source
        if isinstance(source, bytes):
            yield io.BytesIO(source)
        elif isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                yield file
        elif isinstance(source, io.TextIOBase):
            raise TypeError("file: must be opened in binary mode")
        else:
            yield source

    @property
    def repeatable(self) -> bool:
        """Whether it can be sent twice."""
        return isinstance(self.source, str | os.PathLike | bytes) or self.source.seekable()


class Body(NamedTuple):
    """What follows the headers: bytes, their parts in order, or nothing; `headers` describe it.

    The parts can be iterated over again. Without a Content-Length among the headers, their length is unknown.
    """

    content: bytes | Iterable[bytes] | None
    headers: Mapping[str, str]


class Request(NamedTuple):
    """One request; `repeatable` means that sending it twice has the same effect as sending it once."""

    method: str
    path: str
    params: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    json: Any = None
    form: Mapping[str, Any] = {}
    attachment: Attachment | None = None
    repeatable: bool = True

    @property
    def target(self) -> str:
        """The path with the query; parameters that are None are omitted."""
        given = {name: _show(value) for name, value in self.params.items() if value is not None}
        query = urlencode(given, doseq=True, quote_via=quote)
        return f"{self.path}?{query}" if query else self.path

    @contextlib.contextmanager
    def open_body(self) -> Iterator[Body]:
        """The body; an attachment is open while it is used."""
        if self.attachment is not None:
            with self.attachment.open() as file:
                form = _Form(self.form, self.attachment, file)
                yield Body(form, form.headers)
        elif self.json is not None:
            content = write_json(self.json)
            yield Body(content, {"Content-Type": "application/json", "Content-Length": str(len(content))})
        else:
            yield Body(None, {})


class Response(NamedTuple):
    """An answer. Its headers are pairs of names, in any case, and values."""

    status_code: int
    headers: Sequence[tuple[str, str]]
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the service did what was asked."""
        return 200 <= self.status_code < 300

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode(errors="replace")

    def find_header(self, name: str) -> str | None:
        """The value of the header with this name in lowercase, or None."""
        return next((value for given, value in self.headers if given.lower() == name), None)


class NotAnswered(Exception):
    """A transport got no answer to a request; the cause is its own error.

    `sent` means that the service may have received the request, so that what it asks for may be done.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Transport(Protocol):
    """Carries the requests of a `KnowledgeClient`."""

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send `request.target` and `request.open_body()`, with these headers and those of the body.

        Redirects are not followed. Raises NotAnswered.
        """
        ...


class AsyncTransport(Protocol):
    """Carries the requests of an `AsyncKnowledgeClient`."""

    async def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Do the same as `Transport.send`."""
        ...


class _Form:
    """A form with a file as multipart/form-data; the file is read while the form is sent."""

    def __init__(self, fields: Mapping[str, Any], attachment: Attachment, file: BinaryIO) -> None:
        boundary = os.urandom(16).hex()
        head = [
            f"--{boundary}\r\nContent-Disposition: form-data; {_quote('name', name)}\r\n\r\n{each}\r\n"
            for name, value in fields.items()
            for each in (value if isinstance(value, list | tuple) else [value])
        ]
        head.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; {_quote("filename", attachment.name)}\r\n'
            f"Content-Type: {attachment.media_type or _guess_type(attachment.name)}\r\n\r\n"
        )
        self._head = "".join(head).encode()
        self._file = file
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        if file.seekable():
            length = len(self._head) + file.seek(0, os.SEEK_END) + len(self._tail)
            self.headers["Content-Length"] = str(length)

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        if self._file.seekable():
            self._file.seek(0)
        while piece := self._file.read(PIECE):
            yield piece
        yield self._tail


def _quote(name: str, value: str) -> str:
    """A parameter of a part's header."""
    escaped = re.sub(r'[\x00-\x1f"]', lambda found: f"%{ord(found[0]):02X}", value.replace("\\", r"\\"))
    return f'{name}="{escaped}"'


def _guess_type(name: str) -> str:
    import mimetypes  # only uploads need it

    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _show(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
