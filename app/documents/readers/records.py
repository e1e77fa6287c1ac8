"""JSON and JSON Lines: a line of `path.to.key: value` for each value, a paragraph for each record."""

import json
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers import source_code
from app.documents.readers.builder import BLOCK, TextBuilder
from app.errors import UnreadableDocument

MAX_DEPTH = 100
"""Maximum levels of nesting. Generated documents rarely have 30."""

_CONSTANTS = {True: "true", False: "false", None: "null"}
# Lists of single values up to this length stay on one line.
_LINE = 300
# Numbers as written: 1.10 stays 1.10, and an id of 20 digits keeps all of them.
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=str, strict=False)


def parse(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read one JSON value, or one per line; text that is not JSON is kept unchanged."""
    text = text.strip()
    try:
        value, end = _DECODER.raw_decode(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        return source_code.parse(text, limits)
    writer = _RecordWriter(TextBuilder(limits))
    if end == len(text):
        writer.write(value)
        return writer.finish("json", _find_title(value))
    if "\n" not in text[end : len(text) - len(text[end:].lstrip())]:
        return source_code.parse(text, limits)
    for line in text.splitlines():
        writer.write_line(line)
    return writer.finish("jsonl", None)


def _find_title(value: Any) -> str | None:
    pairs = value if isinstance(value, tuple) else ()
    return next((item for key, item in pairs if key == "title" and isinstance(item, str)), None)


def _too_deep() -> UnreadableDocument:
    return UnreadableDocument(f"the JSON is nested more than {MAX_DEPTH} levels deep")


class _RecordWriter:
    """Writes decoded JSON, in which objects are tuples of pairs, arrays are lists, and numbers are text."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._lines: list[str] = []
        self._gap = "\n\n"

    def write_line(self, line: str) -> None:
        """Write a record of JSON Lines; a broken line is kept unchanged."""
        if not line.strip():
            return
        try:
            value = _DECODER.decode(line)
        except RecursionError:
            raise _too_deep() from None
        except ValueError:
            value = line
        self._separate()
        self.write(value)

    def write(self, value: Any, path: str = "", depth: int = 0, lists: int = 0) -> None:
        """Write a value. `lists` counts the enclosing arrays: each element of the outermost array is a record."""
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, tuple):
            section = False
            for key, item in value:
                if depth == 0 and (section or isinstance(item, tuple | list)):
                    self._separate()
                section = isinstance(item, tuple | list)
                key = " ".join(key.split())
                self.write(item, f"{path}.{key}" if path else key, depth + 1, lists)
        elif isinstance(value, list) and any(isinstance(item, tuple | list) for item in value):
            for item in value:
                if lists == 0:
                    self._separate()
                self.write(item, path, depth + 1, lists + 1)
        elif text := _join(value) if isinstance(value, list) else _render(value):
            self._lines.append(f"{path}: {text}" if path else text)
            if len(self._lines) >= BLOCK:
                self._flush()

    def finish(self, format_name: str, title: str | None) -> ParsedDocument:
        """The document written so far."""
        self._flush()
        return self._builder.finish(format_name, title=title)

    def _separate(self) -> None:
        if self._lines and self._lines[-1]:
            self._lines.append("")
        elif not self._lines:
            self._gap = "\n\n"

    def _flush(self) -> None:
        ends_record = bool(self._lines) and not self._lines[-1]
        self._builder.add("\n".join(self._lines), gap=self._gap)
        self._lines.clear()
        self._gap = "\n\n" if ends_record else "\n"


def _render(value: Any) -> str:
    return value.strip() if isinstance(value, str) else _CONSTANTS[value]


def _join(values: list[Any]) -> str:
    texts = [item.rstrip("\n") if isinstance(item, str) else _CONSTANTS[item] for item in values]
    # The lines of a multi-line text, as in notebooks, keep their indentation.
    if sum(map(len, texts)) > _LINE or any(isinstance(item, str) and "\n" in item for item in values):
        return "\n" + "\n".join(texts)
    return ", ".join(text.strip() for text in texts if text.strip())
