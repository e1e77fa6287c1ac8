"""HTML: the text that a reader would read, without navigation and other page elements."""

from __future__ import annotations

import codecs
import re
from typing import Any

from lxml import etree

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from app.documents.readers.markup import build_tree
from app.documents.readers.text import clean_text, collapse_spaces, decode_text

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
_UNSEEN_TAGS = (
    "head script style noscript template svg math iframe object embed canvas audio video map button "
    "select textarea datalist dialog"
)
_UNSEEN = frozenset(_UNSEEN_TAGS.split())
_FURNITURE = frozenset({"nav", "footer", "aside"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LINES_TAGS = "li tr dt dd br option figcaption caption"
_LINES = frozenset(_LINES_TAGS.split())
_BLOCKS_TAGS = (
    "address article aside blockquote body center details div dl fieldset figure footer form header hr "
    "html main menu nav ol p pre section summary table tbody tfoot thead ul"
)
_BLOCKS = frozenset(_BLOCKS_TAGS.split())


def parse(data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Read the visible text of an HTML page; nothing is fetched and no custom entity is expanded."""
    source = clean_text(decode_text(data, _find_charset(data)))
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    root = build_tree(
        source.encode("utf-8", errors="replace"), parser, "the HTML has no content that can be read"
    )
    document = _PageReader(limits, skip_furniture=True).read(root)
    # Some pages wrap all of their content in elements that are navigation elsewhere.
    return document if document.text else _PageReader(limits, skip_furniture=False).read(root)


def _find_charset(data: bytes) -> str | None:
    match = _CHARSET.search(data[:4096])
    if match is None:
        return None
    name = (match.group(1) or match.group(2)).decode("ascii", errors="ignore").lower()
    if name.startswith("utf-16"):  # the bytes so far are readable as ASCII, so the name is wrong
        return None
    return "cp1252" if name in {"iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"} else name


class _PageReader:
    def __init__(self, limits: ParseLimits, *, skip_furniture: bool) -> None:
        self._builder = TextBuilder(limits)
        self._skip_furniture = skip_furniture
        self._line: list[str] = []
        self._gap = ""
        self._heading: str | None = None
        self._preformatted = 0
        self._contents = 0  # number of open elements that mark the content
        self._tables: list[bool] = []  # for each open table: whether it contains data (not layout)

    def read(self, root: Any) -> ParsedDocument:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            if self._is_skipped(element):
                walk.skip_subtree()
                self._break_around(element.tag)
            elif event == "start":
                self._open(element)
            else:
                self._close(element)
            if event == "end":
                self._line.append(element.tail or "")
        self._flush()
        title = root.findtext(".//head/title") or root.findtext(".//title")
        return self._builder.finish("html", title=title)

    def _is_skipped(self, element: Any) -> bool:
        if element.tag in _UNSEEN or "hidden" in element.attrib:
            return True
        if not self._skip_furniture:
            return False
        return element.tag in _FURNITURE or (element.tag == "header" and not self._contents)

    def _open(self, element: Any) -> None:
        tag = element.tag
        if tag in _HEADINGS and self._heading is None:
            self._flush()
            self._heading = tag
        elif tag == "table":
            nested = ("table", *_HEADINGS)
            self._tables.append(next(element.iterdescendants(*nested), None) is None)
        self._break_around(tag)
        self._preformatted += tag == "pre"
        self._contents += tag in {"article", "main"}
        self._line.append(element.text or "")

    def _close(self, element: Any) -> None:
        tag = element.tag
        if tag == self._heading:
            title, self._line, self._heading = "".join(self._line), [], None
            self._builder.add_heading(title, _HEADINGS[tag])
            self._gap = "\n\n"
        elif tag in {"td", "th"} and self._in_data_table():
            self._line.append(" | ")
        else:
            self._break_around(tag)
        self._preformatted -= tag == "pre"
        self._contents -= tag in {"article", "main"}
        if tag == "table":
            self._tables.pop()

    def _break_around(self, tag: str) -> None:
        cell = tag in {"td", "th"} and not self._in_data_table()
        if not (tag in _BLOCKS or tag in _LINES or cell):
            return
        if self._heading or (self._in_data_table() and tag not in {"tr", "table", "caption"}):
            self._line.append(" ")
            return
        self._flush()
        self._gap = max(self._gap, "\n" if tag in _LINES else "\n\n")

    def _in_data_table(self) -> bool:
        return bool(self._tables) and self._tables[-1]

    def _flush(self) -> None:
        text, self._line = "".join(self._line), []
        text = clean_text(text) if self._preformatted else collapse_spaces(text)
        if self._in_data_table():
            text = text.removesuffix("|").rstrip()
        if text.strip():
            self._builder.add(text, self._gap or "\n\n")
            self._gap = ""
