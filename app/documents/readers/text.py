"""Normalises text to the form that is stored."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, TypeVar

from lxml import etree

from app.contract.text import drop_excess_marks
from app.errors import UnreadableDocument

Kind = TypeVar("Kind")

_FENCES = re.compile("`{3,}")
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile("[\u00a0\u2007\u202f]")
# Colours and movements of the cursor in the output of a terminal.
_TERMINAL = re.compile(r"\x1b\[[0-9;?]{0,30}[A-Za-z]")
# Control characters, zero-width spaces, soft hyphens, byte order marks, surrogates and non-characters. They are
# invisible, and a word that contains one would not be found.
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff\ufffe\uffff\ud800-\udfff]")
# The shapes of Arabic letters at a place in a word, which people do not type; among them are noncharacters, which stay.
PRESENTATION_FORMS = re.compile("[\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc]")
_BLANK_LINES = re.compile(r"(?<![ \t])[ \t]+(?=\n)")

_LINE_BREAK = re.compile(r"\b(\w++)[-\u2010\u00ad][ \t]*\n(\w++)")
_JOINING = frozenset({"und", "oder", "bzw", "sowie", "and", "or", "et", "ou", "y", "e", "o", "en", "of"})


def clean_text(text: str) -> str:
    """Normalise to NFC with line feeds, plain spaces and the letters of Arabic presentation forms; remove invisible
    characters, and marks beyond 30."""
    text = _LINE_ENDS.sub("\n", text)
    text = _SPACES.sub(" ", text)
    text = _TERMINAL.sub("", text)
    text = _INVISIBLE.sub("", text)
    text = _BLANK_LINES.sub("", text)
    if text.isascii():
        return text
    # The letter of a mark stands on a space.
    text = PRESENTATION_FORMS.sub(lambda form: unicodedata.normalize("NFKC", form.group()).strip(), text)
    return unicodedata.normalize("NFC", drop_excess_marks(text))


def collapse_spaces(text: str) -> str:
    """Clean `text` and put it on one line."""
    return " ".join(clean_text(text).split())


def join_hyphenation(text: str) -> str:
    """Rejoin words that a line break split; hyphens that belong to a word are kept."""

    def join(match: re.Match[str]) -> str:
        left, right = match.groups()
        if right.lower() in _JOINING:
            return f"{left}- {right}"
        hyphenated = f"{left}-{right}"
        if not (left[-1].islower() and right[0].islower()):
            return hyphenated
        return hyphenated if hyphenated in text and left + right not in text else left + right

    return _LINE_BREAK.sub(join, text)


def list_lines(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Each line after its position; a list of all lines would be many times as large as the text."""
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start = end + 1


def fence_code(text: str, language: str = "") -> str:
    """A code block of Markdown; its fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def read_integer(text: str, digits: int, default: int) -> int:
    """A number of at most so many digits without a sign; the default for any other text."""
    return int(text) if text.isdecimal() and len(text) <= digits else default


def take_value(holder: Any, key: str, kind: type[Kind]) -> Kind:
    """The value of a key of decoded JSON; an empty one if it is missing, or of another kind."""
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, kind) else kind()


def build_tree(source: bytes, parser: Any, refusal: str) -> Any:
    """The root element. Raises UnreadableDocument(`refusal`) for broken input, and MemoryError."""
    try:
        root = etree.fromstring(source, parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        raise UnreadableDocument(refusal) from error
    if root is None:
        raise UnreadableDocument(refusal)
    return root


def parse_xml(source: bytes, label: str) -> Any:
    """The root of an XML part of a file, without comments; entities are not expanded. Raises as `build_tree`."""
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True
    )
    return build_tree(source, parser, f"the {label} file is damaged: its XML cannot be read")


def local_name(element: Any) -> str:
    """An element's name without its namespace; empty for nodes that are not elements."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
