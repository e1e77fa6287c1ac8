"""Parts of Office files: XML members of a ZIP container, the relations between them, and numbers of lists."""

import posixpath
import zipfile
from dataclasses import dataclass
from typing import Any

from app.documents.archive import read_member
from app.documents.parsed import ParseLimits
from app.documents.readers.builder import remove_marks
from app.documents.readers.text import collapse_spaces, parse_xml
from app.errors import UnreadableDocument

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
        if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
            raise self._refuse_entities()
        root = parse_xml(content, self.label)
        # In an encoding in which the search above does not find the words.
        if root.getroottree().docinfo.internalDTD is not None:
            raise self._refuse_entities()
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
                return str(properties.findtext(f".//{_TITLE}") or "") or None
        return None

    def _refuse_entities(self) -> UnreadableDocument:
        return UnreadableDocument(
            f"the {self.label} file declares XML entities, which Office never does; it is not read"
        )


_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"


def read_chart(chart: Any) -> list[tuple[str, ...]]:
    """The categories and values of a chart's series, as the rows of a table; the names of the series are its first."""
    names: list[str] = []
    rows: dict[tuple[str, str], list[str]] = {}
    for place, series in enumerate(chart.iter(f"{_CHART}ser")):
        names.append(" ".join(_read_points(series, "tx").values()))
        labels = _read_points(series, "cat") or _read_points(series, "xVal")
        for index, value in (_read_points(series, "val") or _read_points(series, "yVal")).items():
            row = rows.setdefault((index, labels.get(index, "")), [])
            row.extend([""] * (place - len(row)))
            row.append(value)
    return [("", *names), *((label, *values) for (_, label), values in rows.items())] if rows else []


def _read_points(series: Any, name: str) -> dict[str, str]:
    """The values that a chart keeps of its sheet, by their number; those of several levels together."""
    points: dict[str, str] = {}
    for part in series.iterfind(f"{{*}}{name}"):
        for value in part.iter(f"{_CHART}v"):
            index = value.getparent().get("idx", "")
            points[index] = " ".join(filter(None, (points.get(index), collapse_spaces(remove_marks(value.text or "")))))
    return points


_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def write_number(number: int, kind: str) -> str:
    """A number in a format of Word: decimal, decimalZero, lowerLetter, upperLetter, lowerRoman or upperRoman."""
    if kind in {"lowerLetter", "upperLetter"} and number > 0:
        text = chr(ord("a") + (number - 1) % 26) * min(1 + (number - 1) // 26, 5)
    elif kind in {"lowerRoman", "upperRoman"} and 0 < number < 4000:
        text = _write_roman(number)
    else:
        return f"{number:02}" if kind == "decimalZero" else str(number)
    return text.upper() if kind.startswith("upper") else text


def _write_roman(number: int) -> str:
    parts = []
    for value, sign in _ROMAN:
        parts.append(sign * (number // value))
        number %= value
    return "".join(parts)
