"""The supported kinds of file, and detection of a file's kind.

To add a kind, write a function `(data, limits) -> ParsedDocument` in `readers` (`(text, limits)` for a kind of text), a
function that recognises the kind by its first bytes, and a row in `FORMATS`. A reader raises UnreadableDocument when
the file is damaged, encrypted or over a limit, and RecognitionNeeded for pages that only a process with the models of
text recognition can read.
"""

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial
from pathlib import PurePath
from pkgutil import resolve_name
from typing import Any

from app.documents.archive import is_archive, list_names
from app.documents.ocr.access import INSTALL, is_installed
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.encodings import decode, find_charset, find_codec, unicode_encoding
from app.documents.readers.tables import find_delimiter
from app.errors import InvalidInput, UnreadableDocument, UnsupportedMediaType

_HTML_START = re.compile(
    r"(?>\s+|<!--(?>(?:(?!-->).)*)-->|<\?xml[^>]{0,500}>)*+<(?:!doctype\s+html|html)\b", re.I | re.S
)
_SVG_START = re.compile(
    r"(?>\s+|<!--(?>(?:(?!-->).)*)-->|<\?xml[^>]{0,500}>|<!doctype\s+svg[^\[>]{0,500}(?>\[[^\]]{0,4000}\]\s*)?+>)*+"
    r"<(?:svg:)?svg\b",
    re.I | re.S,
)
_XML_TAG = re.compile(r"\A\s*<")
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
_FILE_NAME = re.compile(rb"name\*?\d*\*?=[^\r\n;]{0,300}(\.[A-Za-z0-9]{1,8})\b")
_MAIL_HINTS = frozenset({".eml", "message/rfc822"})
_MAIL_HEADERS = frozenset({"from", "to", "subject", "date", "message-id", "mime-version", "received", "return-path"})
_HEADER = re.compile(r"^([A-Za-z][A-Za-z0-9-]{0,50}):", re.M)
_HEADERS = re.compile(r"(?>(?:From [^\n]*\n)?)(?>[A-Za-z][A-Za-z0-9-]{0,50}:[^\n]*+\n(?:[ \t][^\n]*+\n)*+)++")
_NOTEBOOK_HINTS = frozenset({".ipynb", "application/x-ipynb+json"})
_NOTEBOOK_KEY = re.compile(r'"cell_type"\s*:\s*"(?:code|markdown|raw)"')
_CAPTIONS_START = re.compile(
    r"\s*(?:WEBVTT\b|\d{1,6}[ \t]*\r?\n(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{3}[ \t]+-->)", re.ASCII
)
_RST_HINTS = frozenset({".rst", ".rest", "text/x-rst", "text/prs.fallenstein.rst"})
_ASCIIDOC_HINTS = frozenset({".adoc", ".asciidoc", ".asc", "text/asciidoc", "text/x-asciidoc"})
_ORG_HINTS = frozenset({".org", "text/org", "text/x-org"})
_WITH_PICTURES = frozenset({".docx", ".pptx", ".odt", ".odp", ".epub"})
"""Suffixes of files whose pictures are read."""
_OPEN = "application/vnd.oasis.opendocument"
_EPUB = "application/epub+zip"
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_XLS, _XLSX, _PPTX = "Workbook", "xl/workbook.xml", "ppt/presentation.xml"
_STREAMS = (_XLS, "WordDocument", "PowerPoint Document", "EncryptedPackage")
"""Streams of old Office files that tell their kind."""
_HEAD = 8_192
_CONTROLS = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
_CONTROLS_SHARE = 0.02
"""Share of control characters that a text may have, as copied from a PDF; compressed data has 10 %."""
_FEW_CONTROLS, _FEW_SHARE = 4, 0.1
"""So many are allowed in a short text, where they are a larger share."""
_OFFICE = "application/vnd.openxmlformats-officedocument"
_VALUE_AND_NEXT_LINE = re.compile(rb"[\]}][ \t\r]*\n\s*[\[{]")


@dataclass(frozen=True, slots=True)
class Sample:
    """The part of a file that recognition uses. Name and declared type decide only between kinds of text.

    Attributes:
        head: the first 8 KiB.
        is_text: whether the bytes are text.
        text: the decoded head, "" when the bytes are not text.
        whole: whether the head is the whole file.
        second_line: whether a line longer than the head ends, and the next one begins, like a JSON value.
        members: names of the members of a ZIP file, or of the telling streams of an old Office file.
        name: the file name in lowercase, "" if it has none.
        hints: the file extension and the declared media type, in lowercase; the bytes take precedence.
    """

    head: bytes
    is_text: bool
    text: str
    whole: bool
    second_line: bool
    members: frozenset[str]
    name: str
    hints: frozenset[str]

    def is_hinted(self, hints: frozenset[str]) -> bool:
        """Whether it is text, and its extension or declared type is one of these."""
        return self.is_text and not self.hints.isdisjoint(hints)

    def is_undeclared(self) -> bool:
        """Whether neither the name nor the declared type identifies a kind of text."""
        return not any(hint.startswith((".", "text/")) for hint in self.hints)


Recognise = Callable[[Sample], bool]


def name_image(head: bytes) -> str | None:
    """The name of the format of an image, None for other files."""
    return next((name for name, start in _IMAGE_STARTS if start.match(head)), None)


def _is_pdf(sample: Sample) -> bool:
    """PDF readers accept the signature anywhere in the first kilobyte."""
    return b"%PDF-" in sample.head[:1024]


def _is_docx(sample: Sample) -> bool:
    """A ZIP file with Word's main part (some programs number it)."""
    return any(re.fullmatch(r"word/document\d*\.xml", name) for name in sample.members)


def _has(name: str) -> Recognise:
    return lambda sample: name in sample.members


def _is_epub(sample: Sample) -> bool:
    """A book, also if a program packed it again and its media type is no longer the first member."""
    return "META-INF/container.xml" in sample.members and any(name.endswith(".opf") for name in sample.members)


def _has_type(suffix: str) -> Recognise:
    """Whether the first member of a ZIP file states the media type of the format with this suffix."""

    def recognise(sample: Sample) -> bool:
        return sample.head[30:].startswith(b"mimetype" + find_format(suffix).media_type.encode())

    return recognise


def _hinted(hints: frozenset[str]) -> Recognise:
    return lambda sample: sample.is_hinted(hints)


def _is_mail(sample: Sample) -> bool:
    """Begins with headers, and is declared as a mail or has those of one."""
    if not sample.is_text or not (headers := _HEADERS.match(sample.text)):
        return False
    names = {name.lower() for name in _HEADER.findall(headers.group())}
    if sample.is_hinted(_MAIL_HINTS):
        return not names.isdisjoint(_MAIL_HEADERS)
    return sample.is_undeclared() and "from" in names and len(names & _MAIL_HEADERS) > 2


def _is_notebook(sample: Sample) -> bool:
    """Begins like JSON, and is declared as a notebook or has the keys of one."""
    if not sample.text.lstrip().startswith("{"):
        return False
    return sample.is_hinted(_NOTEBOOK_HINTS) or _NOTEBOOK_KEY.search(sample.text) is not None


def _begins(start: re.Pattern[str], hints: frozenset[str], sign: re.Pattern[str]) -> Recognise:
    """Whether a file has this start, or is declared as such a file and has this sign."""
    return lambda sample: bool(start.match(sample.text) or (sample.is_hinted(hints) and sign.search(sample.text)))


def _is_source_map(sample: Sample) -> bool:
    """Declared as a source map, and has the keys of one at its beginning."""
    if not sample.is_hinted(_SOURCE_MAP_HINTS):
        return False
    return sample.text.lstrip().startswith("{") and _SOURCE_MAP_KEY.search(sample.text) is not None


def _is_lock_file(sample: Sample) -> bool:
    """Has the name of a file in which a package manager keeps versions."""
    return sample.is_hinted(_LOCK_HINTS) or (sample.is_text and sample.name in _LOCK_NAMES)


def _is_json_lines(sample: Sample) -> bool:
    """Begins with several JSON values on separate lines, or with one and is declared as JSON Lines."""
    if not _JSON_START.match(sample.text):
        return False
    if sample.second_line or sample.is_hinted(_LINES_HINTS):
        return True
    end = _find_json_end(sample)
    return end is not None and _NEXT_LINE.match(sample.text, end) is not None


def _is_json(sample: Sample) -> bool:
    """An object or array from beginning to end, as far as the sample shows."""
    end = _find_json_end(sample) if _JSON_START.match(sample.text) else None
    return end is not None and not sample.text[end:].strip()


def _is_table(sample: Sample) -> bool:
    """Declared as CSV or TSV, or undeclared with the same number of columns, at least three, in every line."""
    if sample.is_hinted(_TABLE_HINTS):
        return True
    if not sample.is_undeclared() or sample.text.count("\n") < 3:
        return False
    delimiter, width, share = find_delimiter(sample.text)
    return share == 1 and width >= (2 if delimiter == "\t" else 3)


def _is_code(sample: Sample) -> bool:
    """Has the name or the declared type of source code, or begins like a script or XML."""
    if not sample.is_text:
        return False
    if sample.is_hinted(_CODE_HINTS) or sample.name in _CODE_NAMES:
        return True
    if any(hint.startswith("text/x-") for hint in sample.hints - _MARKDOWN_HINTS - {"text/x-log"}):
        return True
    return sample.is_undeclared() and _CODE_START.match(sample.text) is not None


def _is_markdown(sample: Sample) -> bool:
    """Declared as Markdown, or undeclared with headings and other Markdown syntax."""
    if sample.is_hinted(_MARKDOWN_HINTS):
        return True
    return sample.is_undeclared() and all(syntax.search(sample.text) for syntax in (_MARKDOWN_HEADING, _MARKDOWN_OTHER))


def _find_json_end(sample: Sample) -> int | None:
    """The end of the first JSON value in the text, the text's length if the value continues; None for other text."""
    text = sample.text
    start = len(text) - len(text.lstrip())
    try:
        return _DECODER.raw_decode(text, start)[1]
    except RecursionError:
        return None if sample.is_hinted(_MARKDOWN_HINTS) else len(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text) - _CUT_VALUE or error.msg.startswith("Unterminated string")
        return len(text) if cut and not sample.whole else None
    except ValueError:  # a number of more digits than Python converts
        return len(text)


class ReaderMissing(Exception):
    """The reader of a part of a file is not loaded, and this process can load nothing any more."""


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A kind of file: `reader` names the function that reads it, `recognise` tests whether a file is of this kind.

    `suffixes` are those of most files of a kind whose reader takes long to load; empty for the other kinds. An
    `image` is read only with the extra `ocr`. The reader of a `text` gets it decoded; some of them `declare` their
    encoding.
    """

    name: str
    label: str
    media_type: str
    reader: str
    recognise: Recognise
    suffixes: frozenset[str] = frozenset()
    image: bool = False
    text: bool = False
    declares: bool = False

    def is_said_by(self, hints: frozenset[str]) -> bool:
        """Whether the name or the declared type of a file says that it is of this kind, and not a text."""
        return not self.text and not hints.isdisjoint({f".{self.name}", self.media_type, *self.suffixes})

    def load(self) -> Callable[[Any, ParseLimits], ParsedDocument]:
        """Its reader; raises ImportError or OSError where its libraries cannot be loaded."""
        read: Callable[[Any, ParseLimits], ParsedDocument] = resolve_name(f"app.documents.readers.{self.reader}")
        return read

    def read(self, data: bytes, limits: ParseLimits, codec: str | None = None) -> ParsedDocument:
        """Read a file, a text with the `codec` that was declared for it. Raises as `load` and the reader do."""
        read = self.load()
        if not self.text:
            return read(data, limits)
        decoded = decode(data, codec or (find_charset(data) if self.declares else None))
        document = read(decoded.text, limits)
        return replace(
            document, encoding=decoded.encoding, encoding_guessed=decoded.is_guessed, removed_controls=decoded.controls
        )


def _row(
    name: str, label: str, media_type: str, reader: str, recognise: Recognise, *suffixes: str, **of: bool
) -> DocumentFormat:
    return DocumentFormat(name, label, media_type, reader, recognise, frozenset(suffixes), **of)


def _image(name: str, label: str, *suffixes: str) -> DocumentFormat:
    def recognise(sample: Sample) -> bool:
        return not sample.is_text and name_image(sample.head) == name

    return _row(name, label, f"image/{name}", "images:parse_image", recognise, *suffixes, image=True)


_text = partial(_row, text=True)
_is_captions = _begins(_CAPTIONS_START, frozenset(), _CAPTIONS_START)
_is_svg = _begins(_SVG_START, _SVG_HINTS, _XML_TAG)
_is_html = _begins(_HTML_START, _HTML_HINTS, _HTML_TAG)


FORMATS: tuple[DocumentFormat, ...] = (
    _row("pdf", "PDF", "application/pdf", "pdf.reader:parse", _is_pdf, ".pdf"),
    _row("docx", "DOCX", f"{_OFFICE}.wordprocessingml.document", "office.docx:parse", _is_docx, ".docx"),
    _row("pptx", "PPTX", f"{_OFFICE}.presentationml.presentation", "office.pptx:parse", _has(_PPTX), ".pptx"),
    _row("xlsx", "XLSX", f"{_OFFICE}.spreadsheetml.sheet", "office.xlsx:parse", _has(_XLSX), ".xlsx"),
    _row("xls", "XLS", "application/vnd.ms-excel", "office.xlsx:parse_xls", _has(_XLS), ".xls"),
    _row("odt", "ODT", f"{_OPEN}.text", "office.odf:parse_text", _has_type("odt"), ".odt"),
    _row("odp", "ODP", f"{_OPEN}.presentation", "office.odf:parse_presentation", _has_type("odp"), ".odp"),
    _row("ods", "ODS", f"{_OPEN}.spreadsheet", "office.xlsx:parse_ods", _has_type("ods"), ".ods"),
    _row("epub", "EPUB", _EPUB, "html.epub:parse", _is_epub, ".epub"),
    _row("zip", "ZIP", "application/zip", "bundle:parse", lambda sample: bool(sample.members)),
    _image("png", "PNG", ".png"),
    _image("jpeg", "JPEG", ".jpg", ".jpeg"),
    _image("tiff", "TIFF", ".tif", ".tiff"),
    _image("webp", "WebP", ".webp"),
    _image("gif", "GIF", ".gif"),
    _image("bmp", "BMP", ".bmp"),
    _row("svg", "SVG", "image/svg+xml", "svg:parse", _is_svg, ".svg"),
    _text("html", "HTML", "text/html", "html.page:parse", _is_html, ".html", ".htm", ".xhtml", declares=True),
    _row("eml", "e-mail", "message/rfc822", "mail:parse", _is_mail, ".eml"),
    _text("ipynb", "Jupyter notebooks", "application/x-ipynb+json", "notebook:parse", _is_notebook),
    _text("captions", "captions (VTT, SRT)", "text/vtt", "captions:parse", _is_captions),
    _text("sourcemap", "source maps", "application/source-map+json", "generated:parse_source_map", _is_source_map),
    _text("lockfile", "lock files", "text/x-lockfile", "generated:parse_lock_file", _is_lock_file),
    _text("jsonl", "JSON Lines", "application/x-ndjson", "records:parse", _is_json_lines),
    _text("json", "JSON", "application/json", "records:parse", _is_json),
    _text("csv", "CSV", "text/csv", "tables:parse", _is_table),
    _text("css", "CSS", "text/css", "generated:parse_stylesheet", _hinted(_STYLESHEET_HINTS)),
    _text("javascript", "JavaScript", "text/javascript", "source_code:parse_javascript", _hinted(_JAVASCRIPT_HINTS)),
    _text("rst", "reStructuredText", "text/x-rst", "markup:parse_rst", _hinted(_RST_HINTS)),
    _text("asciidoc", "AsciiDoc", "text/asciidoc", "markup:parse_asciidoc", _hinted(_ASCIIDOC_HINTS)),
    _text("org", "Org", "text/org", "markup:parse_org", _hinted(_ORG_HINTS)),
    _text("code", "source code", "text/x-source", "source_code:parse", _is_code, declares=True),
    _text("markdown", "Markdown", "text/markdown", "markdown:parse", _is_markdown),
    _text("text", "plain text", "text/plain", "builder:parse_plain", lambda sample: sample.is_text),
)
"""In order of precedence: the first format that recognises the file reads it."""

IMAGE_SUFFIXES = frozenset(suffix for item in FORMATS if item.image for suffix in item.suffixes)
_FORMAT_BY_NAME = {item.name: item for item in FORMATS}


def find_format(name: str) -> DocumentFormat:
    """The format with this name. Raises KeyError when there is none."""
    return _FORMAT_BY_NAME[name]


def expect_formats(kind: DocumentFormat, data: bytes) -> tuple[DocumentFormat, ...]:
    """The formats whose readers a file probably needs: its own, and those of its members and pictures by their names.

    The bytes of a member can be of another format, for which the reader of the file raises ReaderMissing.
    """
    if kind.name == "eml":
        found = {suffix.decode().lower() for suffix in _FILE_NAME.findall(data)} | {".eml", ".html"}
    elif kind.name == "zip" or not kind.suffixes.isdisjoint(_WITH_PICTURES):
        names = (name.lower() for name in list_names(data))
        found = {PurePath(name).suffix for name in names if "thumbnail" not in name}  # as of a whole document
    else:
        return (kind,)
    if kind.name not in {"eml", "zip"}:
        return kind, *(item for item in FORMATS if item.image and not item.suffixes.isdisjoint(found))
    if not found.isdisjoint(_WITH_PICTURES):
        found |= IMAGE_SUFFIXES
    return tuple(item for item in FORMATS if not (item.suffixes and item.suffixes.isdisjoint(found)))


def detect_format(data: bytes, filename: str | None = None, declared_type: str | None = None) -> DocumentFormat:
    """Detect the kind of a file from its bytes; name and declared type decide only between kinds of text.

    Raises InvalidInput for an empty file, UnreadableDocument for an Office file with a password, and
    UnsupportedMediaType, which lists the supported kinds, for all others.
    """
    if not data:
        raise InvalidInput.of("file", "the file is empty")
    refusal = find_refusal(data)
    readable = [item for item in FORMATS if not item.image or is_installed()]
    if refusal is None:
        sample = _take_sample(data, filename, declared_type)
        item = next((item for item in FORMATS if item.recognise(sample)), None)
        if item in readable:
            return item
        said = next((item.label for item in readable if item.is_said_by(sample.hints)), None)
        if item is not None:
            refusal = f"the file is an image ({item.label}); {INSTALL}"
        elif said is not None:
            refusal = f"its name or type says {said}, but the file is damaged or of another kind"
        else:
            refusal = "this kind of file is not supported"
    raise UnsupportedMediaType(f"{refusal}; supported kinds: {', '.join(item.label for item in readable)}")


def find_refusal(data: bytes) -> str | None:
    """The reason why a document of a known kind is not supported; None for other files. Raises UnreadableDocument for
    an Office file with a password."""
    if data.startswith(_OLD_OFFICE):
        streams = _list_streams(data)
        if "EncryptedPackage" in streams:
            raise UnreadableDocument("the file is encrypted; save it without a password")
        if streams == {_XLS}:
            return None
        return "old Office files (.doc, .ppt, .msg) are not supported; save the file as DOCX, PPTX, EML or PDF"
    if data.startswith(b"{\\rtf"):
        return "RTF is not supported; save the file as DOCX or PDF"
    return _refuse_archive(data) if is_archive(data) else None


def _refuse_archive(data: bytes) -> str | None:
    # The first member of these archives names their kind, uncompressed.
    kind = data[30:200]
    known = [f"mimetype{_OPEN}.{name}".encode() for name in ("text", "presentation", "spreadsheet")]
    if kind.startswith(f"mimetype{_OPEN}.".encode()) and not kind.startswith(tuple(known)):
        return "OpenDocument drawings and formulas are not supported; save the file as PDF"
    names = list_names(data)
    if "index.apxl" in names or any(name.endswith(".iwa") or name == "Index.zip" for name in names):
        return "files of Keynote, Numbers and Pages are not supported; export the document as PPTX, XLSX, DOCX or PDF"
    if "xl/workbook.bin" in names:
        return "binary Excel files (.xlsb) are not supported; save the file as XLSX"
    if "visio/document.xml" in names:
        return "Visio files are not supported; save the file as PDF"
    return None


def _list_streams(data: bytes) -> frozenset[str]:
    """Which of the streams that tell its kind an old Office file has; empty for other files."""
    if not data.startswith(_OLD_OFFICE):
        return frozenset()
    return frozenset(name for name in _STREAMS if name.encode("utf-16-le") in data)


def _take_sample(data: bytes, filename: str | None, declared_type: str | None) -> Sample:
    head, declared = data[:_HEAD], declared_type or ""
    path = PurePath((filename or "").lower())
    hints = {path.suffix, declared.split(";")[0].strip().lower()}
    # The type that clients send by default.
    hints -= {"", "application/octet-stream"}
    end = data.find(b"\n")
    controls = len(_CONTROLS.findall(head))
    codec = declared_codec(declared)
    allowed = max(_CONTROLS_SHARE * len(head), min(_FEW_CONTROLS, _FEW_SHARE * len(head)))
    zeros = b"\0" in head and not _is_utf8(head)
    plain = unicode_encoding(head) is not None or (controls <= allowed and not zeros)
    return Sample(
        head=head,
        is_text=plain,
        text=_decode_head(head, codec) if plain else "",
        whole=len(data) <= _HEAD,
        second_line=end >= _HEAD and _VALUE_AND_NEXT_LINE.search(data, end - 3, end + 100) is not None,
        members=list_names(data) if is_archive(data) else _list_streams(data),
        name=path.name,
        hints=frozenset(hints),
    )


def _is_utf8(head: bytes) -> bool:
    """Whether the first bytes are UTF-8, which may end within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def declared_codec(declared_type: str | None) -> str | None:
    """The codec of the `charset` of a media type, None if it has none that is known."""
    message = Message()
    message["Content-Type"] = " ".join((declared_type or "").split())
    charset = message.get_param("charset")
    return find_codec(charset) if isinstance(charset, str) else None


def _decode_head(head: bytes, codec: str | None) -> str:
    """The first bytes as text, which may end within a character."""
    encoding, length = unicode_encoding(head) or (codec, 0)
    if encoding is not None:
        return head[length:].decode(encoding, errors="replace")
    text = head.decode("utf-8", errors="replace")
    return text if text.count("\ufffd") <= 1 else head.decode("latin-1")
