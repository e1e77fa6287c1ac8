"""The confined process: reads one request from stdin, parses the file, and writes one answer to stdout.

The request is a line of JSON followed by the file. The readers that it names, and the models of text recognition if it
asks for them, are loaded first. Then the process is confined, before any byte of the file is read: from then on it can
open nothing, not even its own modules.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, BinaryIO

from app.documents.formats import DocumentFormat, find_format
from app.documents.ocr.access import explain_missing_text, provide
from app.documents.parsed import ParseLimits, is_fault_of_system
from app.documents.patience import allow_ending
from app.documents.process.answer import Answer, write_answer
from app.documents.process.confinement import confine
from app.documents.readers.encodings import load_codecs, load_guessing
from app.errors import UnreadableDocument
from app.kernel import die_with_parent


def main() -> None:
    """Entry point; the only argument is the process id of the parent."""
    die_with_parent(signal.SIGKILL, int(sys.argv[1]))
    os.nice(10)  # from the beginning: loading the readers takes as long as reading a small file
    request = json.loads(sys.stdin.buffer.readline())
    kind, limits = find_format(request["format"]), ParseLimits(**request["limits"])
    for name in request["readers"]:
        find_format(name).load()
    load_codecs()
    if request["guesses"]:
        load_guessing()
    recogniser: Any = None
    if request["ocr"] == "here":  # its libraries take long to load and are in an extra
        recogniser = import_module("app.documents.ocr.engine").load_recogniser(limits)
    provide(request["ocr"], recogniser)
    answer_pipe = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.close(silence)
    missing = confine(limits)
    allow_ending(limits.seconds)
    answer_request(sys.stdin.buffer, answer_pipe, kind, limits, missing, request["codec"])
    # Skips the clean-up of the libraries, which is not needed.
    os._exit(0)


def answer_request(
    source: BinaryIO,
    target: BinaryIO,
    kind: DocumentFormat,
    limits: ParseLimits,
    missing: Sequence[str],
    codec: str | None = None,
) -> None:
    """Parse the file in `source` and write the document, or the reason for the failure, to `target`."""
    try:
        document = kind.read(source.read(), limits, codec)
        if not document.text:
            unread = document.places_without_text or document.pages_without_text
            reason = f": {explain_missing_text()}" if unread else ""
            raise UnreadableDocument(f"the {kind.label} file contains no text{reason}")
        written = write_answer(Answer(document, missing=tuple(missing)))
    except UnreadableDocument as error:
        written = write_answer(Answer(refusal=str(error)))
    except MemoryError:
        written = write_answer(Answer(exhausted="memory"))
    except Exception as error:  # also ReaderMissing and RecognitionNeeded, which the parent expects
        # A hostile file can make a library raise any exception, and its message could contain content.
        written = write_answer(Answer(failure=type(error).__name__, transient=is_fault_of_system(error)))
    with contextlib.suppress(BrokenPipeError):
        target.writelines(written)
        target.flush()
