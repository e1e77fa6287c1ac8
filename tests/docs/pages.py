"""The pages of the documentation, and their blocks of code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sybil.document import Document
from sybil.parsers.abstract.lexers import LexerCollection
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in DOCS.rglob("*.md")))
"""The paths of the pages in the repository."""

OPERATIONS = "docs/operations/"
"""Pages that tests/operation runs, because it has a server of its own to break and repair."""

LEXER = LexerCollection([RawFencedCodeBlockLexer(re.compile(r"(?P<language>[^\n]*)$\n", re.MULTILINE))])
MARKER = re.compile(r"<!-- (?P<name>not run|output|schema): ?(?P<text>[^>]*?) ?-->\s*\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `marker` and `remark` are those of the comment right before it.

    `not run: REASON`: cannot be run here. `output: of the block above`: what the block before it prints.
    `schema: NAME`: a JSON value that a schema of the OpenAPI document allows.
    """

    page: str
    line: int
    language: str
    source: str
    marker: str = ""
    remark: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def find_blocks(page: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = (ROOT / page).read_text("utf-8")
    return read_blocks(page, text)


def read_blocks(page: str, text: str) -> Iterator[Block]:
    """The blocks of a text."""
    document = Document(text, page)
    for region in LEXER(document):
        marker = MARKER.search(text[: region.start])
        lexemes = region.lexemes
        yield Block(
            page,
            text.count("\n", 0, region.start) + 1,
            lexemes["language"].strip(),
            str(lexemes["source"]),
            marker["name"] if marker else "",
            marker["text"] if marker else "",
        )
