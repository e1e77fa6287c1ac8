"""Parts of Office files: XML members of a ZIP container, the relations between them, and charts."""

import datetime
import posixpath
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.documents.archive import read_member
from app.documents.parsed import ParseLimits
from app.documents.readers.builder import remove_marks
from app.documents.readers.text import collapse_spaces, local_name, parse_xml
from app.documents.runs import Item, cut_runs
from app.errors import UnreadableDocument

_PROGRAM_TITLE = re.compile(r"|(?:powerpoint.?)?(?:presentation|präsentation)|présentation powerpoint", re.I)
_FILE_NAME = re.compile(r"[^\n]{1,200}\.(?:png|jpe?g|gif|bmp|tiff?|emf|wmf|svg|webp)", re.I)
_GENERATED = re.compile(
    r"\s*(?:Description automatically generated.*|AI-generated content may be incorrect\.?|"
    r"Automatisch generierte Beschreibung.*|KI-generierte Inhalte können fehlerhaft sein\.?)\s*$"
)
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


@dataclass(frozen=True, slots=True)
class OfficePackage:
    """The members of an Office file, each read within the limits; `label` names the kind of file in errors."""

    archive: zipfile.ZipFile
    label: str
    limits: ParseLimits

    def read_part(self, name: str) -> Any:
        """Root element of a member, or None if there is no such member. XML that declares entities is refused."""
        content = read_member(self.archive, name, self.limits)
        if content is None:
            return None
        declared = b"<!DOCTYPE" in content or b"<!ENTITY" in content
        root = None if declared else parse_xml(content, self.label)
        # Also in an encoding in which the search above does not find the words.
        if root is None or root.getroottree().docinfo.internalDTD is not None:
            refusal = "declares XML entities, which Office never does; it is not read"
            raise UnreadableDocument(f"the {self.label} file {refusal}")
        return root

    def read_relations(self, part: str) -> dict[str, tuple[str, str]]:
        """The last word of the type of each relation of a part and the name of the member that it refers to, by id."""
        folder, name = posixpath.split(part)
        root = self.read_part(f"{folder}/_rels/{name}.rels")
        relations = {}
        for element in root if root is not None else ():
            target = element.get("Target", "")
            if element.get("TargetMode") != "External":
                target = target[1:] if target.startswith("/") else posixpath.join(folder, target)
                kind = element.get("Type", "").rpartition("/")[2]
                relations[element.get("Id", "")] = (kind, posixpath.normpath(target))
        return relations

    def read_title(self) -> str | None:
        """The title in the properties of a file, of Office or OpenDocument."""
        for name in ("docProps/core.xml", "meta.xml"):
            if (properties := self.read_part(name)) is not None:
                title = collapse_spaces(str(properties.findtext(f".//{_TITLE}") or ""))
                return None if _PROGRAM_TITLE.fullmatch(title) else title
        return None


def read_description(properties: Any) -> str:
    """The description of a picture or shape, without what programs write of their own: its file name, and a notice."""
    text = remove_marks(properties.get("descr", "")).strip()
    return "" if _FILE_NAME.fullmatch(text) else _GENERATED.sub("", text)


def sort_rows(placed: Iterable[tuple[float, float, Item]], height: float) -> list[Item]:
    """Sort items with their tops and lefts from top to bottom, and from left to right where the tops differ by less."""
    rows = cut_runs(sorted(placed, key=lambda item: item[0]), lambda row, item: item[0] - row[0][0] >= height)
    return [item for row in rows for _, _, item in sorted(row, key=lambda item: item[1])]


_DATE_FORMAT = re.compile(r"yy|d[\\/. -]|[\\/. -]d")
_LAST_DAY = 2_958_465
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"


def read_chart(chart: Any) -> list[tuple[str, ...]]:
    """The categories and values of a chart's series, as the rows of a table; the names of the series are its first."""
    names: list[str] = []
    early = chart.find(f".//{_CHART}date1904")
    first = datetime.date(1899, 12, 30) if early is None or early.get("val") == "0" else datetime.date(1904, 1, 1)
    rows: dict[tuple[str, str], list[str]] = {}
    for place, series in enumerate(chart.iter(f"{_CHART}ser")):
        names.append(" ".join(_read_points(series, "tx", first).values()))
        labels = _read_points(series, "cat", first) or _read_points(series, "xVal", first)
        for index, value in (_read_points(series, "val", first) or _read_points(series, "yVal", first)).items():
            row = rows.setdefault((index, labels.get(index, "")), [])
            row.extend([""] * (place - len(row)))
            row.append(value)
    return [("", *names), *((label, *values) for (_, label), values in rows.items())] if rows else []


def _read_points(series: Any, name: str, first: datetime.date) -> dict[str, str]:
    """The values that a chart keeps of its sheet, by their number; those of several levels together."""
    points: dict[str, str] = {}
    for part in series.iterfind(f"{{*}}{name}"):
        dated = any(_DATE_FORMAT.search(code.text or "") for code in part.iter(f"{_CHART}formatCode"))
        for value in part.iter(f"{_CHART}v"):
            point = value.getparent()
            text = collapse_spaces(remove_marks(value.text or ""))
            if local_name(point.getparent()).startswith("num"):
                text = _write_value(text, first if dated else None)
            points[point.get("idx", "")] = " ".join(filter(None, (points.get(point.get("idx", "")), text)))
    return points


def _write_value(text: str, first: datetime.date | None) -> str:
    """A number without the noise of its binary form, or the date that is so many days after the first."""
    try:
        number = float(text)
    except ValueError:
        return text
    if first is not None and 1 <= number <= _LAST_DAY:
        return (first + datetime.timedelta(int(number))).isoformat()
    return f"{number:.15g}"
