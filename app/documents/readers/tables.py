"""Tables of records, written as Markdown or row by row, and the readers of CSV and TSV."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import BLOCK, TextBuilder, add_marked
from app.errors import UnreadableDocument

# Numbers, with their signs and units in tables, and dates.
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,'\u00a0\u202f ]*(?:e[-+]?\d+)?\s?[%$€£¥)]?", re.I)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[ T]\d{1,2}:\d{2}.*)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
# A row of this length gets a line for each value, so that it is cut between values.
_LONG_ROW = 600
_TITLE_ROWS = 10


def write_table(builder: TextBuilder, rows: Iterable[Sequence[str]]) -> None:
    """Write each row as `header: value | header: value`, or `value | value` when the table has no headers.

    The headers are the first row with several values, if it looks like a header row. Rows with a single value
    above it are the table's title and notes. Below an empty row, another table can begin with headers of its own.
    """
    builder.add_lines(filter(None, _list_lines(rows)))


def _list_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    headers: Sequence[str] = ()
    waiting: Sequence[str] = ()
    for filled, block in groupby(rows, lambda row: any(map(_is_filled, row))):
        if not filled:
            continue
        remaining = iter(block)
        above: list[Sequence[str]] = []
        for row in remaining:
            above.append(row)
            if sum(map(_is_filled, row)) > 1 or len(above) > _TITLE_ROWS:
                break
        following = next(remaining, None)
        own = _begins_table(above[-1], following, headers)
        if own:
            yield _render(waiting, ())
            headers = [_flatten(cell) for cell in above.pop()]
            waiting = headers if following is None else ()
        else:
            waiting = ()
        yield from (_render(row, () if own else headers) for row in above)
        if following is not None:
            yield from (_render(row, headers) for row in chain([following], remaining))
    yield _render(waiting, ())


def _begins_table(row: Sequence[str], following: Sequence[str] | None, headers: Sequence[str]) -> bool:
    """Whether the first row with several values after an empty one names columns; below other headers, only with other
    columns or above values such as numbers."""
    if not are_headers(row):
        return False
    if not any(map(_is_filled, headers)):
        return True
    if following is None or sum(map(_is_filled, row)) < 2:
        return False
    other = [place for place, cell in enumerate(row) if _is_filled(cell)]
    return other != [place for place, cell in enumerate(headers) if _is_filled(cell)] or not are_headers(following)


def are_headers(row: Sequence[str]) -> bool:
    """Whether a row names columns: distinct words, no dates, and no numbers except years."""
    filled = [cell.strip() for cell in row if _is_filled(cell)]
    words = [cell for cell in filled if not _YEAR.fullmatch(cell)]
    if not words or len(set(filled)) < len(filled):
        return False
    return not any(len(cell) > 200 or _NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) for cell in words)


def _render(row: Sequence[str], headers: Sequence[str]) -> str:
    values = []
    for index, cell in enumerate(row):
        if value := _flatten(cell):
            header = headers[index] if index < len(headers) else ""
            values.append(f"{header}: {value}" if header else value)
    if sum(map(len, values)) > _LONG_ROW:
        return "\n" + "\n".join(values) + "\n"
    return " | ".join(values)


def _is_filled(cell: str) -> bool:
    return bool(cell) and not cell.isspace()


def _flatten(cell: str) -> str:
    return " ".join(cell.split())


def write_markdown_table(
    builder: TextBuilder, rows: Sequence[Sequence[str]], headers: int | None = None, gap: str = "\n\n"
) -> None:
    """Write rows of cells, of which the first `headers` name the columns.

    Several header rows become one. With None, the first row is the header if it looks like one. A table with one
    column becomes lines, and one without text is not written.
    """
    filled = [row for row in rows if any(map(_is_filled, row))]
    width = max((len(row) for row in filled), default=0)
    if width < 2:
        add_marked(builder, "\n".join(cell for row in filled for cell in row), gap)
        return
    if headers is None:
        headers = int(len(filled) > 1 and are_headers(filled[0]))
    start = None
    if headers > 0:
        header = _join_headers(filled[:headers], width)
        start = add_marked(builder, f"{render_cells(header, width)}\n{'| --- ' * width}|", gap)
    body = builder.length + 1 if start is not None else None
    for first in range(headers, len(filled), BLOCK):
        lines = "\n".join(render_cells(row, width) for row in filled[first : first + BLOCK])
        place = add_marked(builder, lines, gap if start is None else "\n")
        if start is None:
            start = body = place
    if start is not None and body is not None:
        builder.mark_table(start, min(body, builder.length), builder.length)


def _join_headers(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """One header row: the names above each column, each once."""
    columns = ([row[column] if column < len(row) else "" for row in rows] for column in range(width))
    return [" ".join(dict.fromkeys(name for name in names if name)) for names in columns]


def render_cells(row: Sequence[str], width: int) -> str:
    """A row of a Markdown table with `width` columns."""
    cells = [cell.replace("|", "\\|") for cell in row] + [""] * (width - len(row))
    return f"| {' | '.join(cells)} |"


_DELIMITERS = ",;\t|"
# The line in which Excel names the delimiter.
_NAMED = re.compile(r"sep=([,;\t|])[ \t]*\r?\n", re.I)
_SAMPLE = 64 << 10


def parse(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read a table of values separated by commas, semicolons, tabs or bars."""
    text = text.replace("\0", "")
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
    try:
        widths = [len(row) for row in rows if row]
    except csv.Error:
        return []
    # The last row may be truncated.
    return widths[:-1] if len(widths) > 2 else widths
