"""The encoding that an HTML page declares."""

from __future__ import annotations

import codecs
import re

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
