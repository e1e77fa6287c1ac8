"""Source code, configuration and XML, kept unchanged; definitions are its headings."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.documents.parsed import HeadingSpan, ParsedDocument, ParseLimits
from app.documents.readers.builder import parse_source
from app.documents.readers.generated import describe, is_minified
from app.documents.readers.text import list_lines


def parse(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read source code of any language; chunks are cut first at definitions, then at blank lines."""
    return parse_source(text, limits, "code", find_definitions, titled=False)


def parse_javascript(text: str, limits: ParseLimits) -> ParsedDocument:
    """Read JavaScript as source code, or a note if it is minified."""
    if is_minified(text):
        return describe(text, limits, "javascript", "JavaScript")
    return parse(text, limits)


MAX_DEFINITIONS = 20_000
"""Definitions that are found in one file; the text after the last one belongs to it."""

_MAX_TITLE = 100
_MAX_STATEMENT = 60
# A longer line is generated; the work of the patterns grows with its length.
_MAX_LINE = 400
_TAB = 4

_CONTAINERS = "class|interface|trait|struct|enum|namespace|impl|defmodule"
# Words that are also names of variables: a definition with one of them opens a block.
_WEAK = "union|record|object|module|protocol|extension|mixin|contract|message|service|actor"
_FUNCTIONS = r"def|defp|defmacro|fn|func|function|fun|sub|proc|procedure|macro|macro_rules!"
_MODIFIER = (
    r"(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|partial|virtual|override|"
    r"async|unsafe|inline|open|data|suspend|pub(?:\([^)]{0,40}\))?|const|constexpr|local|typedef|case)\s+"
)
_NAMED = re.compile(
    rf"(?:{_MODIFIER}){{0,6}}(?P<kind>{_CONTAINERS}|{_WEAK}|{_FUNCTIONS})(?:<[^>]{{0,100}}>)?\*?\s+(?P<name>[\w$.:'!?]{{1,80}})"
)
_IMPLEMENTED = re.compile(r"(?:unsafe\s+)?impl\b(?:<[^>]{0,100}>)?\s+[^{]{1,120}")
_RECEIVER = re.compile(r"func\s*\([^)]{1,80}\)\s*\w{1,80}")
_ASSIGNED = re.compile(
    r"(?:export\s+)?(?:const|let|var)\s+(?P<name>[\w$]{1,80})\s*(?::[^=]{0,100})?=\s*(?:async\s*)?"
    r"(?:function\b|(?:\([^)]{0,150}\)|[\w$]{1,80})\s*(?::[^=]{0,80})?=>)"
)
_SQL = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:unique\s+|temp(?:orary)?\s+|materialized\s+)?"
    r"(?P<kind>table|function|view|trigger|index|type|procedure|policy|schema|sequence)\s+(?:if\s+not\s+exists\s+)?"
    r"(?P<name>[\w.\"`]{1,100})",
    re.I,
)
# A function of a language with braces: words of its type, a name, and parameters.
_TYPED = re.compile(r"(?P<type>(?:[\w$:~<>,\[\]*&?]{1,80}\s+){0,5})[*&]{0,3}(?P<name>~?[\w$:]{1,80})\s*\((?P<rest>.*)")
_ACCESS = re.compile(r"(?:public|private|protected|internal|static)\b")
_STATEMENT_WORDS = (
    "if else for while switch return case do try catch finally with when match elif except yield throw new delete "
    "await goto sizeof print echo assert raise unless until loop select foreach using lock and or not in is require "
    "include super this defer go typeof import from insert update where set let var const"
)
_STATEMENTS = frozenset(_STATEMENT_WORDS.split())
_WORD = re.compile(r"[\w$]+")
_COMMENT = re.compile(r"#|//|/\*|\*|--|@|;;|%")
_CLOSER = re.compile(r"[{})\]]|(?:end|else|elif|elsif|except|finally|catch|then|do|begin|fi|done|esac)\b|\w+:\s*$|\W+$")
_BRACE_BELOW = re.compile(r"[ \t]*\n[ \t]*\{")
_QUOTES = ('"""', "'''")


class _Definition(NamedTuple):
    indent: int
    level: int
    holds_others: bool


def find_definitions(text: str) -> Iterator[HeadingSpan]:
    """Classes, their methods, functions and other definitions in order, each with the comment above it.

    Code after a definition and outside of it has its own first line as its heading. Definitions within functions
    belong to these.
    """
    opened: list[_Definition] = []
    above: tuple[int, int] | None = None  # where the comment or decorator begins that ends above, and its indentation
    skipping = ""  # the end of an open text or comment
    found = 0
    for position, whole in list_lines(text):
        line = whole[:_MAX_LINE]
        stripped = line.strip()
        if skipping:
            skipping = "" if skipping in stripped else skipping
            continue
        if not stripped or len(whole) > _MAX_LINE:
            above = None
            continue
        indent = len(line.expandtabs(_TAB)) - len(line.expandtabs(_TAB).lstrip())
        first = above[0] if above and above[1] == indent else position + len(line) - len(line.lstrip())
        skipping = next((mark for mark in _QUOTES if stripped.count(mark) % 2), "")
        if _COMMENT.match(stripped):
            above = (first, indent)
            if stripped.startswith("/*") and "*/" not in stripped:
                skipping = "*/"
            continue
        above = None
        if opened and not opened[-1].holds_others and indent > opened[-1].indent:
            continue
        within = bool(opened) and indent > opened[-1].indent
        if stripped.endswith(")") and _BRACE_BELOW.match(text, position + len(line)):
            # The type of the function may be on the line above.
            stripped, within = f"{stripped} {{", within or indent == 0
        title, holds_others = _read_title(stripped, within=within, outermost=indent == 0)
        closed = None
        while opened and opened[-1].indent >= indent and (title or not _CLOSER.match(stripped)):
            closed = opened.pop()
        if not title and closed is None:
            continue
        level = opened[-1].level + 1 if opened else 1
        yield HeadingSpan(first, level, (title or stripped[:_MAX_STATEMENT].rstrip(" ({:"))[:_MAX_TITLE])
        if title:
            opened.append(_Definition(indent, level, holds_others))
        found += 1
        if found == MAX_DEFINITIONS:
            return


def _read_title(line: str, *, within: bool, outermost: bool) -> tuple[str, bool]:
    """The title of the definition that begins in a line, "" if none does, and whether it can hold other definitions."""
    declared = line.endswith(";") and "{" not in line
    if match := _IMPLEMENTED.match(line):
        return " ".join(match.group().split()), True
    if match := _RECEIVER.match(line):
        return " ".join(match.group().split()), False
    if match := _NAMED.match(line):
        kind, name = match.group("kind"), match.group("name").rstrip(":.")
        if kind in _WEAK.split("|"):
            opens = line.endswith(("{", ":", " do")) or line == match.group()
            return (f"{kind} {name}", True) if opens else ("", False)
        function = _TYPED.match(line[match.end() :].lstrip()) if kind in {"struct", "enum", "class"} else None
        if declared or not name:
            return "", False
        if function is None or line.endswith(":"):
            return f"{kind} {name}", kind in _CONTAINERS.split("|")
    if match := _SQL.match(line):
        return f"{match.group('kind').lower()} {match.group('name')}", False
    if declared:
        return "", False
    if match := _ASSIGNED.match(line):
        return f"const {match.group('name')}", False
    return _read_function(line, within=within, outermost=outermost), False


def _read_function(line: str, *, within: bool, outermost: bool) -> str:
    """The name of a function in a language with braces, "" for other lines."""
    match = _TYPED.match(line)
    if match is None or "=>" in line or "function" in match.group("rest"):
        return ""
    before, name, rest = match.group("type", "name", "rest")
    words = _WORD.findall(before)
    if name in _STATEMENTS or not _STATEMENTS.isdisjoint(words) or "=" in before or ";" in rest.rstrip("}"):
        return ""
    opens = line.endswith("{") or (line.endswith("}") and "{" in rest)
    continues = line.endswith((",", "(", ")")) and ((bool(words) and outermost) or _ACCESS.match(line) is not None)
    shell = not words and rest.startswith(")") and opens
    if (opens and (words or within)) or continues or shell:
        return f"{name}()"
    return ""
