"""Read the encoding that an HTML page declares, and flatten elements nested too deep for libxml2."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Any

from lxml import etree

from app.documents.readers.html.visibility import find_reason

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]{0,100}encoding=[\"']([\w.:-]+)", re.I
)
# Those of the Encoding Standard, as Python names them, and some that old pages declare. The process that reads
# files can load nothing while it reads, so each is loaded here.
_CHARSETS = (
    "cp437 cp850 cp852 cp855 cp857 cp866 cp874 cp932 cp949 cp950 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 "
    "cp1257 cp1258 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 iso8859-10 "
    "iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16 koi8-r koi8-u mac-roman mac-cyrillic tis-620 gb2312 gbk "
    "gb18030 hz big5 big5hkscs euc-jp iso2022-jp shift-jis euc-kr johab utf-7 utf-8-sig utf-32"
)
for _charset in _CHARSETS.split():
    codecs.lookup(_charset)


def find_charset(data: bytes) -> str | None:
    """The declared encoding, None if there is none or it cannot be right."""
    match = _CHARSET.search(data[:4096])
    if match is None:
        return None
    name = (match.group(1) or match.group(2)).decode("ascii", errors="ignore").lower()
    if name.startswith("utf-16"):  # the bytes so far are readable as ASCII, so the name is wrong
        return None
    return "cp1252" if name in {"iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"} else name


_MAX_DEPTH = 500
"""libxml2 omits elements that are nested deeper than 2,048."""


def is_cut(parser: Any) -> bool:
    """Whether the parser omitted a part of the page because it is nested too deeply."""
    return any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log)


class FlatTree:
    """A target of `etree.HTMLParser`, which calls its methods: elements beyond a depth become siblings."""

    def __init__(self) -> None:
        self._tree = etree.TreeBuilder()
        self._open: list[str] = []
        self._deep: list[bool] = []  # for each element that is nested too deeply, whether it is hidden
        self._next: tuple[str, Mapping[str, str]] | None = None  # begins with its first text

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin an element. One that is nested too deeply ends its parent, and inherits whether it is hidden."""
        own = {name: value for name, value in attributes.items() if ":" not in name}
        if len(self._open) < _MAX_DEPTH:
            self._open.append(tag)
            self._tree.start(tag, own)
            return
        hidden = bool(self._deep and self._deep[-1])
        self._deep.append(hidden or find_reason(etree.Element("div", own), styled=True) is not None)
        self._next = (tag, {"hidden": ""} if hidden else own)
        if tag == "img":
            self._begin_next()

    def end(self, tag: str) -> None:
        """End an element."""
        if self._deep:
            self._deep.pop()
            self._next = ("div", {"hidden": ""} if self._deep and self._deep[-1] else {})
        elif self._open:
            self._next = None
            self._tree.end(self._open.pop())

    def data(self, text: str) -> None:
        """Add text to the open element."""
        self._begin_next()
        self._tree.data(text)

    def close(self) -> Any:
        """The root element."""
        while self._open:
            self._tree.end(self._open.pop())
        return self._tree.close()

    def _begin_next(self) -> None:
        if self._next is not None:
            tag, attributes = self._next
            self._next = None
            self._tree.end(self._open.pop())
            self._open.append(tag)
            self._tree.start(tag, dict(attributes))
