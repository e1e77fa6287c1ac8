"""The confined process: reads one request from stdin, parses the file, and writes one answer to stdout.

Both are a line of JSON followed by raw bytes: the file in the request, UTF-8 text in the answer. `confine` is
called before any byte of the file is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import sys
from importlib import import_module
from typing import Any, BinaryIO

from app.documents.formats import find_format
from app.documents.parsed import ParsedDocument, ParseLimits
from app.errors import UnreadableDocument

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_GRACE_SECONDS = 5.0


def main() -> None:
    """Entry point; the only argument is the process id of the parent."""
    confine(int(sys.argv[1]))
    answer_pipe = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    answer_request(sys.stdin.buffer, answer_pipe)
    # Skips the clean-up of the libraries, which is not needed.
    os._exit(0)


def confine(parent: int) -> None:
    """Die with the parent, lower the priority, and forbid starting processes and writing files."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.nice(10)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, 64)
    _limit(resource.RLIMIT_NPROC, 0)


def limit_use(limits: ParseLimits) -> None:
    """Limit memory and time; the timer is for systems that do not report the end of the parent."""
    _limit(resource.RLIMIT_AS, limits.memory_bytes)
    seconds = math.ceil(limits.seconds)
    _limit(resource.RLIMIT_CPU, seconds, seconds + 1)  # the signal comes before the kill
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + _GRACE_SECONDS)


def answer_request(source: BinaryIO, target: BinaryIO, *, confined: bool = True) -> None:
    """Parse the file in `source` and write its text, or the reason for the failure, to `target`."""
    request = json.loads(source.readline())
    limits = ParseLimits(**request["limits"])
    if confined:
        limit_use(limits)
    try:
        kind = find_format(request["format"])
        document: ParsedDocument = import_module(kind.module).parse(source.read(), limits)
        if not document.text:
            raise UnreadableDocument(f"the {kind.label} file contains no text")
        answer, text = _describe(document)
    except UnreadableDocument as error:
        answer, text = {"refusal": str(error)}, b""
    except MemoryError:
        answer, text = {"exhausted": "memory"}, b""
    except Exception as error:
        # A hostile file can make a library raise any exception, and its message could contain content.
        answer, text = {"failure": type(error).__name__}, b""
    with contextlib.suppress(BrokenPipeError):
        target.write(json.dumps(answer).encode() + b"\n")
        target.write(text)
        target.flush()


def _describe(document: ParsedDocument) -> tuple[dict[str, Any], bytes]:
    answer = {
        "format": document.format,
        "pages": [(page.number, page.start, page.end) for page in document.pages],
        "headings": [(heading.start, heading.level, heading.title) for heading in document.headings],
        "title": document.title,
        "total_pages": document.total_pages,
        "parts": [(part.start, part.end, part.format) for part in document.parts],
    }
    return answer, document.text.encode("utf-8")


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    _, allowed = resource.getrlimit(kind)
    wanted = soft if hard is None else hard
    most = wanted if allowed == resource.RLIM_INFINITY else min(wanted, allowed)
    # macOS refuses some of them.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (min(soft, most), most))
