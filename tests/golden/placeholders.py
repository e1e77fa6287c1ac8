"""What differs in every run, replaced by stable placeholders."""

import re
from datetime import UTC, datetime, timedelta

UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?(?:Z|\+00:00| UTC)?)?")
DATE = re.compile(r"(?<![\w-])\d{4}-\d\d-\d\d(?![\w-])")
NEAR = timedelta(days=5000)
"""Times this near are those of the run; requests send times that are further away."""
OTHERS = (
    (re.compile(r'(_ms\\?": ?)[\d.]+'), r"\1<milliseconds>"),
    (re.compile(r'(cursor\\?": ?\\?")[^"\\]+'), r"\1<cursor>"),
    (re.compile(r'(rows\\?": ?\d+,\s*\\?"bytes\\?": ?)\d+'), r"\1<bytes>"),
    (re.compile(r'("progress": )0\.\d+'), r"\1<share>"),
    (re.compile(r"whsec_[\w+/=]+"), "<secret>"),
    (re.compile(r"kb_[\w-]{64}"), "<key>"),
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r'(etag: "\d+-)[0-9a-f]{16}"'), r'\1<digest>"'),
    (re.compile(r"data [a-z]{8}\b"), "data <mark>"),
    (re.compile(r"\b\d+ ms\b"), "<milliseconds> ms"),
    (re.compile(r"(--cursor) \S+"), r"\1 <cursor>"),
    (re.compile(r'("seconds"): \{[^}]*\}'), r"\1: <seconds>"),
    (re.compile(r'("versions"): \{[^}]*\}'), r"\1: <versions>"),
)


class Placeholders:
    """Replaces ids by their names, and other values that vary by their kind."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}

    def name(self, value: str, name: str) -> None:
        """Call an id by a name in every text from now on."""
        self._named[value] = f"<{name}>"

    def replace(self, text: str) -> str:
        """The text; ids without a name are numbered as they appear in it."""
        numbered: dict[str, str] = {}

        def replace_id(found: re.Match[str]) -> str:
            given = self._named.get(found[0])
            return given or numbered.setdefault(found[0], f"<uuid-{len(numbered) + 1}>")

        text = DATE.sub(_replace_date, TIME.sub(_replace_time, UUID.sub(replace_id, text)))
        for pattern, placeholder in OTHERS:
            text = pattern.sub(placeholder, text)
        return text


def _replace_time(found: re.Match[str]) -> str:
    return "<time>" if _is_near(found[0].removesuffix(" UTC")) else found[0]


def _replace_date(found: re.Match[str]) -> str:
    return "<date>" if _is_near(found[0]) else found[0]


def _is_near(time: str) -> bool:
    return abs(datetime.fromisoformat(time).replace(tzinfo=UTC) - datetime.now(UTC)) < NEAR
