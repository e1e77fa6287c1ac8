"""A service whose parser is broken into: it has secrets, listens, and parses one file.

It runs as the user that its launcher chose, reads its options from the command line, and prints the outcome of each
attempt as JSON.
"""

import asyncio
import ctypes
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from app.documents.process import parsing
from app.kernel import forbid_inspection
from tests.documents.process.payload import SECRET


def listen(family: int, kind: int, address: Any) -> socket.socket:
    server = socket.socket(family, kind)
    server.bind(address)
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def main() -> None:
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    if options["hidden"]:
        forbid_inspection()
    memory = ctypes.create_string_buffer(SECRET)
    tcp = listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    udp = listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    unix = listen(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "socket"))
    abstract = listen(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{folder}")
    # A careless library leaves a descriptor to all children.
    os.set_inheritable(tcp.fileno(), True)
    places = {
        "parent": os.getpid(),
        "private": options["private"],
        "folder": options["folder"],
        "address": ctypes.addressof(memory),
        "tcp": tcp.getsockname(),
        "udp": udp.getsockname(),
        "unix": unix.getsockname(),
        "abstract": str(folder),
    }
    start = parsing._START
    given = json.dumps({name: options[name] for name in ("protections", "unlimited")})
    assert abstract.fileno() > 0
    parsing._START = start.replace(
        "from app.documents.process.child",
        f"from tests.documents.process.payload import install; install({given!r}); from app.documents.process.child",
    )
    assert start != parsing._START
    document = asyncio.run(parsing.parse_document(b"Places: " + json.dumps(places).encode(), "a.txt"))
    sys.stdout.write(document.text)


if __name__ == "__main__":
    main()
