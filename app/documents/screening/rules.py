"""Rules for suspicious text, and their matching."""

import operator
import re
import tomllib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import re2

from app.contract.vocabulary import Flag
from app.documents.screening.secret_values import CHECKS, is_random


@dataclass(frozen=True, slots=True)
class Finding:
    """Suspicious characters `text[start:end]`."""

    flag: Flag
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that is searched for only in text with one of its triggers.

    Attributes:
        flag: what a match raises.
        triggers: patterns, at least one of which is in every match; short ones, since all text is compared with them.
        pattern: in the syntax of RE2, which has no backreferences and no look-around.
        reach: bytes after a trigger that a match can have; of a longer one, the rest is not found.
        check: whether a match counts, by the text of its first group that is not empty.
    """

    flag: Flag
    triggers: tuple[str, ...]
    pattern: str
    reach: int
    check: Callable[[str], bool] | None = None


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
        for name, alternatives in given["words"].items():
            pattern = pattern.replace(f"{{{name}}}", alternatives)
        check = None if unless is None and denied is None else operator.not_
        yield _make(rule, "instructions", pattern, check)
    for rule in tomllib.loads((_HERE / "secrets.toml").read_text())["rules"]:
        token = rule.get("token")
        pattern = rule["pattern"] if token is None else rf"(?:^|[^0-9A-Za-z_])(?:{token})"
        random = partial(is_random, least=rule.get("entropy", _RANDOM))
        yield _make(rule, "secret", pattern, CHECKS[rule["check"]] if "check" in rule else random)


def _make(rule: Mapping[str, Any], flag: Flag, pattern: str, check: Callable[[str], bool] | None) -> Rule:
    return Rule(flag, tuple(rule["triggers"]), pattern, rule.get("reach", _REACH), check)


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


_MAX_MEMORY = 64 << 20
"""Bytes for the automaton of all triggers, which needs about one; without enough it would refuse to answer."""

_STEP = 8_192
"""Bytes compared with the triggers at once. Shorter steps cost more calls, longer ones more text for each rule."""
_TRIGGER = 512
"""Bytes of the longest trigger, which can start at the end of a step."""
_BEFORE = 512
"""Bytes before the step with a trigger in which a match can start."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Rules that may match a text.

    Attributes:
        data: the text in UTF-8.
        probes: those of the probes that are in it.
        spans: by the place of a rule, the bytes in which it can match, in order and apart.
    """

    data: bytes
    probes: frozenset[str]
    spans: Mapping[int, Sequence[tuple[int, int]]]


class RuleSet:
    """Rules whose triggers are compiled together: text without one is read once. `probes` are patterns in the syntax of
    RE2 that are looked for at the same time."""

    def __init__(self, rules: Sequence[Rule], probes: Sequence[str] = ()) -> None:
        self._options = re2.Options()
        self._options.max_mem = _MAX_MEMORY
        self._options.log_errors = False
        self._rules = rules
        # Each when it is needed: all of them would take a quarter of a second.
        self._compile = cache(lambda place: re2.compile(rules[place].pattern, self._options))
        self._triggered: list[int | str] = []
        self._triggers = re2.Set.SearchSet(self._options)
        for place, rule in enumerate(rules):
            for trigger in rule.triggers:
                self._triggers.Add(trigger)
                self._triggered.append(place)
        for probe in probes:
            self._triggers.Add(probe)
            self._triggered.append(probe)
        self._triggers.Compile()

    def read(self, text: str) -> Hints:
        """Find the triggers and the probes."""
        data = text.encode()
        probes: set[str] = set()
        spans: dict[int, list[tuple[int, int]]] = {}
        for start in range(0, len(data), _STEP):
            hits = self._triggers.Match(data[start : start + _STEP + _TRIGGER])
            for found in {self._triggered[hit] for hit in hits} if hits else ():
                if isinstance(found, str):
                    probes.add(found)
                else:
                    end = min(start + _STEP + _TRIGGER + self._rules[found].reach, len(data))
                    _add_span(spans.setdefault(found, []), max(0, start - _BEFORE), end)
        return Hints(data, frozenset(probes), spans)

    def find(self, hints: Hints, known: Container[Flag] = ()) -> Iterator[Finding]:
        """Yield the matches of each rule, in order; none that raises a flag which is in `known` at that time."""
        for place, spans in sorted(hints.spans.items()):
            rule = self._rules[place]
            if rule.flag not in known:
                yield from self._find_matches(place, hints.data, spans, known)

    def _find_matches(
        self, place: int, data: bytes, spans: Sequence[tuple[int, int]], known: Container[Flag]
    ) -> Iterator[Finding]:
        # Offsets of bytes become offsets of characters step by step: decoding from the beginning each time would
        # take quadratic time.
        rule, pattern = self._rules[place], self._compile(place)
        bytes_read = characters = 0
        for begin, end in spans:
            for match in pattern.finditer(data, begin, end):
                value: bytes = next(filter(None, match.groups()), b"")
                if rule.check is not None and not rule.check(value.decode()):
                    continue
                start = characters + len(data[bytes_read : match.start()].decode())
                bytes_read, characters = match.end(), start + len(match.group().decode())
                yield Finding(rule.flag, start, characters)
                if rule.flag in known:
                    return


def _add_span(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    if spans and spans[-1][1] >= begin:
        begin = spans.pop()[0]
    spans.append((begin, end))
