"""XLSX, XLS and ODS, through calamine: each sheet has its name as a heading, each row its headers."""

import datetime
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum

from app.documents.archive import open_archive
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.office.ooxml import OfficePackage
from app.documents.readers.tables import write_table
from app.errors import UnreadableDocument

_Value = int | float | str | bool | datetime.time | datetime.date | datetime.datetime | datetime.timedelta
# Excel keeps 15 digits; the others are rounding noise.
_DIGITS = 15


def parse(data: bytes, limits: ParseLimits, name: str = "xlsx") -> ParsedDocument:
    """Read the sheets of a workbook, including hidden sheets: values as they were last computed."""
    builder = TextBuilder(limits)
    title, label = None, name.upper()
    if name != "xls":
        with open_archive(io.BytesIO(data), label, limits) as archive:
            title = OfficePackage(archive, label, limits).read_title()
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(data)) as workbook:
            for sheet in workbook.sheets_metadata:
                if sheet.typ is SheetTypeEnum.WorkSheet:
                    _write_sheet(builder, workbook, sheet.name)
    except BaseException as error:
        # A panic of the library is not an Exception.
        if not isinstance(error, CalamineError) and type(error).__name__ != "PanicException":
            raise
        raise UnreadableDocument(f"the {label} file is damaged or has a password: its sheets cannot be read") from error
    return builder.finish(name, title=title)


parse_xls, parse_ods = partial(parse, name="xls"), partial(parse, name="ods")


def _write_sheet(builder: TextBuilder, workbook: CalamineWorkbook, name: str) -> None:
    sheet = workbook.get_sheet_by_name(name)
    if sheet.start is None:
        return
    builder.add_heading(name, 1)
    first = sheet.start[1]
    spans = [(top, left - first, end) for (top, left), (end, _) in sheet.merged_cell_ranges or () if end > top]
    write_table(builder, _repeat_merged((list(map(_render_value, row)) for row in sheet.iter_rows()), spans))


def _repeat_merged(rows: Iterable[list[str]], spans: Sequence[tuple[int, int, int]]) -> Iterator[list[str]]:
    """Rows in which a cell that spans several of them, below the first, stands in each that has other values."""
    waiting = sorted(spans, reverse=True)
    covering: dict[int, tuple[int, str]] = {}
    begun = False
    for number, row in enumerate(rows):
        for column, (last, text) in covering.items() if any(row) else ():
            if number <= last:
                row[column] = row[column] or text
        while waiting and waiting[-1][0] <= number:
            _, column, last = waiting.pop()
            if begun and 0 <= column < len(row):
                covering[column] = (last, row[column])
        begun = begun or any(row)
        yield row


def _render_value(value: _Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.{_DIGITS}g}"
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(" ", "seconds" if value.second else "minutes")
    return str(value)
