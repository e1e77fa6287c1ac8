"""CSV and TSV: each row with its headers."""

from __future__ import annotations

import csv
import io
import re

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.tables.table import write_table
from app.documents.readers.text import decode_text
from app.errors import UnreadableDocument

_DELIMITERS = ",;\t|"
# The line in which Excel names the delimiter.
_NAMED = re.compile(r"sep=([,;\t|])[ \t]*\r?\n", re.I)
_SAMPLE = 64 << 10


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read a table of values separated by commas, semicolons, tabs or bars."""
    text = decode_text(data).replace("\0", "")
    named = _NAMED.match(text)
    delimiter = named.group(1) if named else find_delimiter(text[:_SAMPLE])[0]
    limit = csv.field_size_limit(limits.max_characters)
    builder = TextBuilder(limits)
    lines = io.StringIO(text[named.end() :] if named else text, newline="")
    try:
        write_table(builder, csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise UnreadableDocument("the CSV file is damaged: it cannot be read as a table") from error
    finally:
        csv.field_size_limit(limit)
    return builder.finish("csv")


def find_delimiter(sample: str) -> tuple[str, int, float]:
    """The most likely delimiter, the number of columns it gives, and the share of rows with that number."""
    best = (",", 1, 0.0)
    for delimiter in _DELIMITERS:
        widths = _measure_rows(sample, delimiter)
        if not widths:
            continue
        width = max(set(widths), key=widths.count)
        share = widths.count(width) / len(widths)
        if width > 1 and (share, width) > (best[2], best[1]):
            best = (delimiter, width, share)
    return best


def _measure_rows(sample: str, delimiter: str) -> list[int]:
    rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True)
    widths = []
    try:
        for row in rows:
            if row:
                widths.append(len(row))
    except csv.Error:
        return []
    # The last row may be truncated.
    return widths[:-1] if len(widths) > 2 else widths
