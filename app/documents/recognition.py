"""Recognise a file's kind by its first bytes. Name and declared type decide only between kinds of text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from app.documents.readers.tables.delimited import find_delimiter

_HTML_START = re.compile(
    r"(?>\s+|<!--(?>(?:(?!-->).)*)-->|<\?xml[^>]{0,500}>)*+<(?:!doctype\s+html|html)\b", re.I | re.S
)
_SVG_START = re.compile(
    r"(?>\s+|<!--(?>(?:(?!-->).)*)-->|<\?xml[^>]{0,500}>|<!doctype\s+svg[^\[>]{0,500}(?>\[[^\]]{0,4000}\]\s*)?+>)*+"
    r"<(?:svg:)?svg\b",
    re.I | re.S,
)
_HTML_TAG = re.compile(r"<(?:!--|!doctype|[a-z][a-z0-9]{0,30}[\s/>])", re.I)
_MARKDOWN_HEADING = re.compile(r"^#{1,6} \S", re.M)
_MARKDOWN_OTHER = re.compile(r"^(?:```|~~~|[-*] \S|> \S)|\]\([^)\s]{1,500}\)|\*\*\S", re.M)
_CODE_START = re.compile(r"\s*(?:#!\s*/|<\?xml\s|<\?php\b)")
_JSON_START = re.compile(r"\s*[\[{]")
_NEXT_LINE = re.compile(r"[ \t\r]*\n\s*[\[{]")
# The end of the sample can cut a value: an escape, a word, or a number.
_CUT_VALUE = 8
_DECODER = json.JSONDecoder()

_IMAGE_STARTS = (
    ("png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("jpeg", re.compile(rb"\xff\xd8\xff")),
    ("tiff", re.compile(rb"II[*+]\0|MM\0[*+]")),
    ("webp", re.compile(rb"RIFF....WEBP", re.S)),
    ("gif", re.compile(rb"GIF8[79]a")),
    # The size of the file and four zeros, then the size of the header.
    ("bmp", re.compile(rb"BM....\0\0\0\0....[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0", re.S)),
)
_SVG_HINTS = frozenset({".svg", "image/svg+xml"})
_HTML_HINTS = frozenset({".html", ".htm", ".xhtml", "text/html", "application/xhtml+xml"})
_MARKDOWN_HINTS = frozenset({".md", ".markdown", ".mdown", ".mkd", "text/markdown", "text/x-markdown"})
_TABLE_HINTS = frozenset({".csv", ".tsv", ".tab", "text/csv", "text/tab-separated-values"})
_LINES_HINTS = frozenset({".jsonl", ".ndjson", "application/x-ndjson", "application/jsonl"})
_STYLESHEET_HINTS = frozenset({".css", ".scss", ".sass", ".less", ".styl", "text/css"})
_JAVASCRIPT_HINTS = frozenset({".js", ".mjs", ".cjs", "text/javascript", "application/javascript"})
_SOURCE_MAP_HINTS = frozenset({".map", "application/source-map+json"})
_SOURCE_MAP_KEY = re.compile(r'"(?:mappings|sources|sections)"\s*:')
_LOCK_HINTS = frozenset({".lock", "text/x-lockfile"})
_LOCK_NAMES = frozenset({"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml"})
_CODE_EXTENSIONS = (
    ".adb .ads .asm .astro .awk .bash .bat .c .cc .cfg .clj .cljs .cmake .cmd .cob .coffee .conf .cpp .cr "
    ".cs .cu .cue .cxx .d .dart .diff .dockerfile .edn .el .elm .env .erl .ex .exs .f .f90 .fish .fs .fsx "
    ".gd .go .gradle .graphql .groovy .h .hcl .hh .hpp .hrl .hs .hx .ini .ino .java .jl .json .json5 .jsonc "
    ".jsx .kt .kts .lisp .lua .m .mk .ml .mli .mm .nim .nix .pas .patch .php .pl .plist .pm .pro "
    ".properties .proto .ps1 .psm1 .py .pyi .r .rb .rkt .rs .s .sbt .scala .scm .sh .sol .sql "
    ".sv .svelte .swift .tcl .tex .tf .thrift .toml .ts .tsx .v .vb .vhd .vim .vue .wsdl .xml .xsd .xsl "
    ".xslt .yaml .yml .zig .zsh"
)
_CODE_TYPES = (
    "application/sql application/toml application/x-httpd-php application/x-sh "
    "application/xml application/yaml text/xml"
)
_CODE_HINTS = frozenset(_CODE_EXTENSIONS.split()) | frozenset(_CODE_TYPES.split())
_CODE_NAMES = frozenset({"dockerfile", "makefile", "gnumakefile", "jenkinsfile", "rakefile", "gemfile", "vagrantfile"})


@dataclass(frozen=True, slots=True)
class Sample:
    """The part of a file that recognition uses.

    Attributes:
        head: the first 8 KiB.
        text: the decoded head, None when the bytes are not text.
        whole: whether the head is the whole file.
        second_line: whether a line longer than the head ends, and the next one begins, like a JSON value.
        members: names of the members of a ZIP file, None for other files.
        name: the file name in lowercase, "" if it has none.
        hints: the file extension and the declared media type, in lowercase; the bytes take precedence.
    """

    head: bytes
    text: str | None
    whole: bool
    second_line: bool
    members: frozenset[str] | None
    name: str
    hints: frozenset[str]

    def is_hinted(self, hints: frozenset[str]) -> bool:
        """Whether the extension or the declared type is one of these."""
        return not self.hints.isdisjoint(hints)

    def is_undeclared(self) -> bool:
        """Whether neither the name nor the declared type identifies a kind of text."""
        return not any(hint.startswith((".", "text/")) for hint in self.hints)


def is_pdf(sample: Sample) -> bool:
    """PDF readers accept the signature anywhere in the first kilobyte."""
    return b"%PDF-" in sample.head[:1024]


def is_docx(sample: Sample) -> bool:
    """A ZIP file with Word's main part (some programs number it)."""
    return any(re.fullmatch(r"word/document\d*\.xml", name) for name in sample.members or ())


def is_pptx(sample: Sample) -> bool:
    """A ZIP file with PowerPoint's list of slides."""
    return "ppt/presentation.xml" in (sample.members or ())


def is_xlsx(sample: Sample) -> bool:
    """A ZIP file with Excel's list of sheets."""
    return "xl/workbook.xml" in (sample.members or ())


def is_zip(sample: Sample) -> bool:
    """Any other ZIP file that is not empty."""
    return bool(sample.members)


def name_image(head: bytes) -> str | None:
    """The name of the format of an image, None for other files."""
    return next((name for name, start in _IMAGE_STARTS if start.match(head)), None)


def is_image(name: str) -> Callable[[Sample], bool]:
    """A test whether a file is an image of the format with this name."""
    return lambda sample: sample.text is None and name_image(sample.head) == name


def is_svg(sample: Sample) -> bool:
    """Begins like an SVG picture, or is declared as one and begins like XML."""
    if sample.text is None:
        return False
    if _SVG_START.match(sample.text):
        return True
    return sample.is_hinted(_SVG_HINTS) and sample.text.lstrip().startswith("<")


def is_html(sample: Sample) -> bool:
    """Begins like HTML, or is declared as HTML and has tags."""
    if sample.text is None:
        return False
    if _HTML_START.match(sample.text):
        return True
    return sample.is_hinted(_HTML_HINTS) and _HTML_TAG.search(sample.text) is not None


def is_source_map(sample: Sample) -> bool:
    """Declared as a source map, and has the keys of one at its beginning."""
    if sample.text is None or not sample.is_hinted(_SOURCE_MAP_HINTS):
        return False
    return sample.text.lstrip().startswith("{") and _SOURCE_MAP_KEY.search(sample.text) is not None


def is_lock_file(sample: Sample) -> bool:
    """Has the name of a file in which a package manager keeps versions."""
    return sample.text is not None and (sample.is_hinted(_LOCK_HINTS) or sample.name in _LOCK_NAMES)


def is_stylesheet(sample: Sample) -> bool:
    """Has the name or the declared type of CSS, or of a language that becomes CSS."""
    return sample.text is not None and sample.is_hinted(_STYLESHEET_HINTS)


def is_javascript(sample: Sample) -> bool:
    """Has the name or the declared type of JavaScript."""
    return sample.text is not None and sample.is_hinted(_JAVASCRIPT_HINTS)


def is_json_lines(sample: Sample) -> bool:
    """Begins with several JSON values on separate lines, or with one and is declared as JSON Lines."""
    if sample.text is None or not _JSON_START.match(sample.text):
        return False
    if sample.second_line or sample.is_hinted(_LINES_HINTS):
        return True
    end = _find_json_end(sample)
    return end is not None and _NEXT_LINE.match(sample.text, end) is not None


def is_json(sample: Sample) -> bool:
    """An object or array from beginning to end, as far as the sample shows."""
    if sample.text is None or not _JSON_START.match(sample.text):
        return False
    end = _find_json_end(sample)
    return end is not None and not sample.text[end:].strip()


def is_table(sample: Sample) -> bool:
    """Declared as CSV or TSV, or undeclared with the same number of columns, at least three, in every line."""
    if sample.text is None:
        return False
    if sample.is_hinted(_TABLE_HINTS):
        return True
    if not sample.is_undeclared() or sample.text.count("\n") < 3:
        return False
    delimiter, width, share = find_delimiter(sample.text)
    return share == 1 and width >= (2 if delimiter == "\t" else 3)


def is_code(sample: Sample) -> bool:
    """Has the name or the declared type of source code, or begins like a script or XML."""
    if sample.text is None:
        return False
    if sample.is_hinted(_CODE_HINTS) or sample.name in _CODE_NAMES:
        return True
    if any(hint.startswith("text/x-") for hint in sample.hints - _MARKDOWN_HINTS - {"text/x-log"}):
        return True
    return sample.is_undeclared() and _CODE_START.match(sample.text) is not None


def is_markdown(sample: Sample) -> bool:
    """Declared as Markdown, or undeclared with headings and other Markdown syntax."""
    if sample.text is None:
        return False
    if sample.is_hinted(_MARKDOWN_HINTS):
        return True
    if not sample.is_undeclared():
        return False
    return bool(_MARKDOWN_HEADING.search(sample.text) and _MARKDOWN_OTHER.search(sample.text))


def is_text(sample: Sample) -> bool:
    """Any text; the last resort."""
    return sample.text is not None


def _find_json_end(sample: Sample) -> int | None:
    """The end of the first JSON value in the text, the text's length if the value continues; None for other text."""
    text = sample.text or ""
    start = len(text) - len(text.lstrip())
    try:
        return _DECODER.raw_decode(text, start)[1]
    except RecursionError:
        return len(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text) - _CUT_VALUE or error.msg.startswith("Unterminated string")
        return len(text) if cut and not sample.whole else None
    except ValueError:  # a number of more digits than Python converts
        return len(text)
