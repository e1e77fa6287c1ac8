"""Captions of a recording, WebVTT and SubRip: what is said, as paragraphs with their times."""

import html
import re
from collections.abc import Iterator

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder

_TIMES = re.compile(
    r"(?:(\d{1,3}):)?([0-5]?\d):([0-5]?\d)[.,]\d{1,3}[ \t]+-->[ \t]+(?:(\d{1,3}):)?([0-5]?\d):([0-5]?\d)"
)
_SPEAKER = re.compile(r"<v(?:\.[^ >]{0,100})? ([^>]{1,200})>")
_TAG = re.compile(r"</?[a-z0-9:][^>]{0,200}>|\{\\[^}]{0,100}\}", re.I)
_DIRECTION = re.compile("[\u200e\u200f]")
_PARAGRAPH = 400
"""Characters after which a paragraph ends with the next sentence."""
_PAUSE = 4
"""Seconds of silence that end a paragraph."""
_ENDS = (".", "!", "?", "…", "。", "！", "？")


def parse(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read captions: cues in a row are one paragraph, which begins with its time, as in `[1:02:03]`."""
    builder = TextBuilder(limits)
    start, silent, said = 0, 0, ""
    last: list[str] = []
    for begun, ended, lines in _list_cues(text):
        if said and (begun - silent > _PAUSE or (len(said) >= _PARAGRAPH and said.endswith(_ENDS))):
            builder.add(f"[{_write_time(start)}] {said}")
            said = ""
        if not said:
            start = begun
        # Captions that scroll repeat their lines: all, the last ones as their first, or the last one for a moment.
        scrolls = lines == last or len(lines) > 1 or begun == ended
        most = min(len(last), len(lines)) if scrolls and not lines[0].startswith(("-", "–")) else 0
        repeated = next((count for count in range(most, 0, -1) if last[-count:] == lines[:count]), 0)
        said = " ".join(filter(None, [said, *lines[repeated:]]))
        last, silent = lines, ended
    if said:
        builder.add(f"[{_write_time(start)}] {said}")
    return builder.finish("captions")


def _list_cues(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """When each cue begins and ends, in seconds, and what is said."""
    times: tuple[int, int] | None = None
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if match := _TIMES.match(line.strip()):
            hours, minutes, seconds, *ends = (int(number or 0) for number in match.groups())
            times, lines = (_count(hours, minutes, seconds), _count(*ends)), []
        elif line.strip():
            lines.append(_clean(line))
        elif times is not None:
            if said := list(filter(None, lines)):
                yield *times, said
            times = None


def _count(hours: int, minutes: int, seconds: int) -> int:
    return 3600 * hours + 60 * minutes + seconds


def _clean(line: str) -> str:
    line = _TAG.sub("", _SPEAKER.sub(lambda match: f"{match.group(1)}: ", line))
    return _DIRECTION.sub("", html.unescape(line)).strip()


def _write_time(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
