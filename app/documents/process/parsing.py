"""Parses files in a separate process, so that no file can crash the service."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import app
from app.documents.formats import (
    FORMATS,
    DocumentFormat,
    ReaderMissing,
    declared_codec,
    detect_format,
    expect_formats,
    find_format,
)
from app.documents.ocr.access import Availability, RecognitionNeeded, is_installed
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.process.answer import MAX_REST, Answer, Malformed, max_answer_bytes, read_answer
from app.documents.readers.encodings import GuessingMissing
from app.errors import UnreadableDocument

logger = logging.getLogger(__name__)

_PIECE = 1 << 20
# -I ignores the current directory and PYTHON* variables; the path is needed for a checkout that is not installed.
_START = "import sys; sys.path.append(sys.argv.pop(1)); from app.documents.process.child import main; main()"
_PACKAGE_ROOT = str(Path(app.__file__).resolve().parent.parent)
# Without them, libraries of text recognition start threads, to which Landlock would not apply.
_VARIABLES = {
    "LC_ALL": "C.UTF-8",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_CRASHES = frozenset({signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP})
"""Ends that a file causes, with which the same file would end again. A bus error is one of the disk."""


class ParserDied(UnreadableDocument):
    """The parsing process was killed, exceeded the time limit, or failed for a reason that is not in the file: a retry
    may succeed."""


class ParserCrashed(UnreadableDocument):
    """Reading the file made the parsing process crash, as it would again."""


class ParserExhausted(UnreadableDocument):
    """Reading the file needs more time or memory than there is."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A file and its kind, the readers that its process loads, whether that process can recognise text, the codec that
    is declared for a text, and whether that process can guess another one."""

    data: bytes
    kind: DocumentFormat
    limits: ParseLimits
    readers: Sequence[DocumentFormat]
    ocr: Availability
    codec: str | None = None
    guesses: bool = False


async def parse_document(
    data: bytes, filename: str | None = None, limits: ParseLimits | None = None, declared_type: str | None = None
) -> ParsedDocument:
    """Read a file as text within limits; a cancelled call leaves no process behind.

    Text is recognised on scanned pages if the extra `ocr` is installed; if that fails, the document is read without.
    Raises the errors of `detect_format`, and UnreadableDocument with the reason when the file is damaged,
    encrypted, without text, or exceeds a limit. The subclass ParserDied means that the file may not be the cause.
    """
    limits = limits or ParseLimits()
    kind = detect_format(data, filename, declared_type)
    started = time.perf_counter()
    codec = declared_codec(declared_type)
    document = await _parse(_Request(data, kind, limits, expect_formats(kind, data), "absent", codec))
    logger.debug(
        "document parsed",
        extra={
            "format": kind.name,
            "bytes": len(data),
            "characters": len(document.text),
            "parse_ms": round((time.perf_counter() - started) * 1000),
        },
    )
    return document


async def _parse(request: _Request) -> ParsedDocument:
    """Loading the models takes a second, so the process that has them runs only for a file that needs it."""
    if not is_installed():
        return await _parse_once(request)
    if not request.kind.image:
        with contextlib.suppress(RecognitionNeeded):
            return await _parse_once(replace(request, ocr="elsewhere"))
    limits = request.limits
    more = replace(
        limits, seconds=limits.seconds + limits.ocr_seconds, memory_bytes=limits.memory_bytes + limits.ocr_memory_bytes
    )
    try:
        return await _parse_once(replace(request, limits=more, ocr="here"))
    except (ParserDied, ParserCrashed, ParserExhausted) as error:
        if request.kind.image:
            raise
        logger.warning("text recognition failed", extra={"format": request.kind.name, "reason": str(error)})
    return await _parse_once(replace(request, ocr="failed"))


async def _parse_once(request: _Request) -> ParsedDocument:
    try:
        async with asyncio.timeout(request.limits.wall_seconds):
            answer, status = await _run_adapted(request)
    except TimeoutError:
        seconds = request.limits.wall_seconds
        raise ParserDied(f"the file was not read within {seconds:g} s: the machine is too busy") from None
    if request.ocr == "elsewhere" and _find_failure(answer, request.limits) == RecognitionNeeded.__name__:
        raise RecognitionNeeded
    return await asyncio.to_thread(_read_document, answer, status, request.kind, request.limits)


async def _run_adapted(request: _Request) -> tuple[bytearray, int]:
    """Run the process, and run it again with what the first run turned out to need."""
    answer, status = await _run_child(request)
    limits = request.limits
    if _find_failure(answer, limits) == ReaderMissing.__name__ and request.readers is not FORMATS:
        # A member of an archive has another format than its name indicates.
        return await _run_adapted(replace(request, readers=FORMATS))
    if _find_failure(answer, limits) == GuessingMissing.__name__ and not request.guesses:
        return await _run_adapted(replace(request, guesses=True))
    pictured = not request.kind.image and any(reader.image or reader.name == "pdf" for reader in request.readers)
    if pictured and (status == -signal.SIGPROF or -status in _CRASHES) and limits.picture_seconds:
        # The structure of a PDF, or a picture that can be left out, needs too much.
        return await _run_adapted(replace(request, limits=replace(limits, structure_seconds=0.0, picture_seconds=0.0)))
    return answer, status


async def find_missing_protections() -> tuple[str, ...]:
    """The protections against a hostile file that this system lacks, as a parsing process finds them."""
    limits = ParseLimits()
    try:
        async with asyncio.timeout(limits.seconds):
            text = find_format("text")
            answer, status = await _run_child(_Request(b"text", text, limits, [text], "absent"))
        if status == 0:
            return read_answer(answer, limits).missing
    except (Malformed, TimeoutError, OSError):
        pass
    return ("a parser that runs",)


async def log_missing_protections() -> None:
    """Log a warning that names the protections that this system lacks."""
    if missing := await find_missing_protections():
        logger.warning("parser less protected", extra={"missing": ", ".join(missing)})


def _find_failure(answer: bytearray, limits: ParseLimits) -> str | None:
    """The error that the process reports; None if it has read the document, or refuses it."""
    if len(answer) <= MAX_REST:
        with contextlib.suppress(Malformed):
            return read_answer(answer, limits).failure
    return None


async def _run_child(request: _Request) -> tuple[bytearray, int]:
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _START, _PACKAGE_ROOT, str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment | _VARIABLES,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    names = [reader.name for reader in request.readers]
    line = {
        "format": request.kind.name,
        "readers": names,
        "limits": asdict(request.limits),
        "ocr": request.ocr,
        "codec": request.codec,
        "guesses": request.guesses,
    }
    feeding = asyncio.create_task(_feed(child.stdin, json.dumps(line).encode() + b"\n", request.data))
    try:
        answer = await _read_bounded(child.stdout, request.limits)
        return answer, await child.wait()
    finally:
        feeding.cancel()
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        child.stdin.close()
        # Reads only the remaining output of a dead process, whose end closes the pipe.
        while await child.stdout.read(_PIECE):
            pass
        await child.wait()


async def _feed(pipe: asyncio.StreamWriter, request: bytes, data: bytes) -> None:
    # A child that refuses the file or dies early does not read all of it; uvloop reports that as RuntimeError.
    with contextlib.suppress(ConnectionError, RuntimeError):
        pipe.write(request)
        for start in range(0, len(data), _PIECE):
            pipe.write(data[start : start + _PIECE])
            await pipe.drain()
        pipe.close()
        await pipe.wait_closed()


async def _read_bounded(pipe: asyncio.StreamReader, limits: ParseLimits) -> bytearray:
    most = max_answer_bytes(limits)
    answer = bytearray()
    while piece := await pipe.read(_PIECE):
        answer += piece
        if len(answer) > most:
            raise UnreadableDocument("the file contains more text than the service reads")
    return answer


def _read_document(data: bytearray, status: int, kind: DocumentFormat, limits: ParseLimits) -> ParsedDocument:
    if status != 0:
        raise _explain_death(status, kind, limits)
    try:
        answer = read_answer(data, limits)
    except Malformed as error:
        # Code that was replaced while the service runs writes another form, and every file is readable after a restart.
        answer = Answer(failure=f"malformed answer: {error}", transient=True)
    if answer.document is not None:
        return answer.document
    if answer.refusal is not None:
        raise UnreadableDocument(answer.refusal)
    if answer.exhausted is not None:
        raise _too_much_memory(limits)
    logger.warning("parser failed", extra={"format": kind.name, "reason": answer.failure})
    if answer.transient:
        raise ParserDied(f"the {kind.label} file cannot be read")
    raise UnreadableDocument(f"the {kind.label} file is damaged: it cannot be read")


def _explain_death(status: int, kind: DocumentFormat, limits: ParseLimits) -> UnreadableDocument:
    logger.warning("parser died", extra={"format": kind.name, "status": status})
    failure = f"the {kind.label} file cannot be read"
    if status == -signal.SIGXCPU:
        return ParserExhausted(f"the file takes more than {limits.seconds:g} s to read")
    if status == -signal.SIGKILL:
        # Only the system kills it, when memory is short.
        return ParserDied(str(_too_much_memory(limits)))
    if -status in _CRASHES:
        return ParserCrashed(f"{failure}: it is damaged, or needs more than {_mebibytes(limits)} of memory")
    return ParserDied(failure)


def _too_much_memory(limits: ParseLimits) -> ParserExhausted:
    return ParserExhausted(f"the file needs more than {_mebibytes(limits)} of memory to read")


def _mebibytes(limits: ParseLimits) -> str:
    return f"{limits.memory_bytes >> 20:,} MiB"
