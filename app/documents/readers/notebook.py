"""Jupyter notebooks: the text cells as Markdown, code cells and their outputs as code blocks."""

import json
from collections.abc import Iterator
from typing import Any

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers import markdown, records
from app.documents.readers.text import fence_code


def parse(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read a notebook (nbformat 3 and 4); images are left out. Other JSON is read as JSON."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return records.parse(text, limits)
    cells = list(_list_cells(notebook))
    if not cells:
        return records.parse(text, limits)
    return markdown.parse("\n\n".join(cells), limits, "ipynb")


def _list_cells(notebook: Any) -> Iterator[str]:
    if not isinstance(notebook, dict):
        return
    metadata = notebook.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    sheets = notebook.get("worksheets")  # nbformat 3
    for holder in [notebook, *(sheets if isinstance(sheets, list) else [])]:
        cells = holder.get("cells") if isinstance(holder, dict) else None
        for cell in cells if isinstance(cells, list) else []:
            if isinstance(cell, dict):
                yield from _write_cell(cell, language if isinstance(language, str) else "")


def _write_cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _join(cell.get("source", cell.get("input"))).strip("\n")
    if cell.get("cell_type") != "code":
        if source.strip():
            yield source
        return
    if source.strip():
        yield fence_code(source, language)
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict) and (text := _read_output(output).strip("\n")).strip():
            yield fence_code(text)


def _read_output(output: dict[str, Any]) -> str:
    data = output.get("data")
    found = data.get("text/plain") if isinstance(data, dict) else None
    return _join(output.get("text", output.get("traceback", found)), "\n" if "traceback" in output else "")


def _join(lines: Any, between: str = "") -> str:
    if isinstance(lines, list):
        return between.join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""
