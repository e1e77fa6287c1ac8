"""Reads the rules from `instructions.toml` and `secrets.toml`."""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.documents.screening.placeholders import is_random
from app.documents.screening.rules import Flag, Rule
from app.documents.screening.secret_values import CHECKS

_HERE = Path(__file__).parent
_RANDOM = 3.0
"""Bits for each character of a secret."""
_REACH = 1_024
"""Bytes after its trigger in which most rules match: 256 characters of any script, a thousand of ASCII."""

_APART = r"[\t\r -/:-@\[-`{-~\x{a0}«»‘’“”„‚–—…·]"
"""A character between two words. Classes of all Unicode letters would make the automata a hundred times as large."""
_GAP = rf"(?:{_APART}+\n?{_APART}*|\n{_APART}*)"
"""Between two words there can be a line break, but not an empty line."""
_WORD = rf"(?:[^\s!-&(-,./:-@\[-`{{-~«»“”„…]+{_GAP})"
_PLACE = "~"
_SPACE = r"(?:[ \t\x{a0}]+\n?[ \t]*|\n[ \t]*)"
_SPACES = re.compile(r"(\[[^\]]*\])| ")


def read_rules() -> Iterator[Rule]:
    """Yield all rules."""
    given = tomllib.loads((_HERE / "instructions.toml").read_text())
    for rule in given["rules"]:
        phrase = rule.get("phrase")
        unless, denied = rule.get("unless"), rule.get("denied")
        pattern = rule["pattern"] if phrase is None else _join(phrase, unless)
        if denied is not None:
            pattern += f"(?:{_WORD}{{0,2}}({denied})(?:{_APART}|\n|$))?"
        check = None if unless is None and denied is None else operator.not_
        yield _make(rule, "instructions", _insert(pattern, given["words"]), check)
    for rule in tomllib.loads((_HERE / "secrets.toml").read_text())["rules"]:
        token = rule.get("token")
        pattern = rule["pattern"] if token is None else rf"(?:^|[^0-9A-Za-z_])(?:{token})"
        yield _make(rule, "secret", pattern, _make_check(rule))


def _make(rule: Mapping[str, Any], flag: Flag, pattern: str, check: Callable[[str], bool] | None) -> Rule:
    return Rule(rule["name"], flag, tuple(rule["triggers"]), pattern, rule.get("reach", _REACH), check)


def _make_check(rule: Mapping[str, Any]) -> Any:
    if "check" in rule:
        return CHECKS[rule["check"]]
    least = rule.get("entropy", _RANDOM)
    return lambda value: is_random(value, least)


def _join(phrase: Sequence[str], unless: str | None) -> str:
    pattern = rf"(?i)(?:^|{_APART}|\n)"
    if unless is not None:
        pattern += f"(?:({_SPACES.sub(_SPACE.replace(chr(92), chr(92) * 2), unless)}){_SPACE})?"
    for number, part in enumerate(phrase, 1):
        if part.startswith(_PLACE):
            pattern += f"{_WORD}{{0,{part[1:]}}}"
        else:
            spaced = _SPACES.sub(lambda found: found[1] or _SPACE, part)
            pattern += f"(?:{spaced})" + (_GAP if number < len(phrase) else rf"(?:{_APART}|\n|$)")
    return pattern


def _insert(pattern: str, words: Mapping[str, str]) -> str:
    for name, alternatives in words.items():
        pattern = pattern.replace(f"{{{name}}}", alternatives)
    return pattern
