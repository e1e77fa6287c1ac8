"""Jupyter notebooks: the text cells as Markdown, code cells and their outputs as code blocks."""

import json
from collections.abc import Iterator
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers import markdown, records
from app.documents.readers.text import fence_code, take_value


def parse(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read a notebook (nbformat 3 and 4); images are left out. Other JSON is read as JSON."""
    try:
        cells = list(_list_cells(json.loads(text)))
    except (ValueError, RecursionError):
        cells = []
    return markdown.parse("\n\n".join(cells), limits, "ipynb") if cells else records.parse(text, limits)


def _list_cells(notebook: Any) -> Iterator[str]:
    kernel = take_value(take_value(notebook, "metadata", dict), "kernelspec", dict)
    for holder in [notebook, *take_value(notebook, "worksheets", list)]:  # nbformat 3
        for cell in take_value(holder, "cells", list):
            if isinstance(cell, dict):
                yield from _write_cell(cell, take_value(kernel, "language", str))


def _write_cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _join(cell.get("source", cell.get("input"))).strip("\n")
    if cell.get("cell_type") != "code":
        if source.strip():
            yield source
        return
    if source.strip():
        yield fence_code(source, language)
    for output in take_value(cell, "outputs", list):
        if isinstance(output, dict) and (text := _read_output(output).strip("\n")).strip():
            yield fence_code(text)


def _read_output(output: dict[str, Any]) -> str:
    data = take_value(output, "data", dict)
    found = data.get("text/markdown", data.get("text/plain"))
    return _join(output.get("text", output.get("traceback", found)), "\n" if "traceback" in output else "")


def _join(lines: Any, between: str = "") -> str:
    if isinstance(lines, list):
        return between.join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""
