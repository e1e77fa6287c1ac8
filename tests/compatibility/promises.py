"""What callers depend on, as a table of names and facts, and what a later version must not do to it.

A name is a path of words: `request SearchRequest limit` is a field that callers send, `answer Hit score` one that they
get, and `command knowledge-search --limit` an option. What callers send may be allowed more, and what they get may have
more fields.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Facts = Mapping[str, Any]
Promises = Mapping[str, Facts]

RECORD = Path(__file__).with_name("released.txt")
"""The promises of the last release, below its version: a line each, indented below the one that begins its name."""

LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
SETS = ("values", "types", "accepts", "statuses")
"""Facts that are sets. Without one, every value is allowed."""
FIXED = ("default", "status", "role", "flag")
ANSWERED = ("required", "types", "values")
"""The facts of an answer."""


def render(version: str, promises: Promises) -> str:
    """The text of the record."""
    lines = [version]
    for name, facts in sorted(promises.items()):
        parent = name
        while parent and (parent == name or parent not in promises):
            parent = parent.rpartition(" ")[0]
        shown = name.removeprefix(parent).lstrip()
        told = [json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)] if facts else []
        lines.append("\t".join([" " * _depth(name, promises) + shown, *told]))
    return "\n".join(lines) + "\n"


def _depth(name: str, promises: Promises) -> int:
    words = name.split(" ")
    return sum(" ".join(words[:end]) in promises for end in range(1, len(words)))


def parse(text: str) -> tuple[str, Promises]:
    """The version and the promises of a record."""
    version, *lines = text.splitlines()
    promises: dict[str, Facts] = {}
    above: list[str] = []
    for line in lines:
        shown, _, facts = line.partition("\t")
        name = shown.lstrip(" ")
        del above[len(shown) - len(name) :]
        above.append(" ".join([*above[-1:], name]))
        promises[above[-1]] = json.loads(facts) if facts else {}
    return version, promises


def find_breaks(released: Promises, now: Promises) -> list[str]:
    """What callers of the released version would notice, one line each."""
    return [*_find_lost(released, now), *_find_new_duties(released, now)]


def _find_lost(released: Promises, now: Promises) -> Iterator[str]:
    for name, before in released.items():
        if name in now:
            compare = _compare_answers if name.startswith("answer ") else _compare_requests
            yield from (f"{name}: {change}" for change in compare(before, now[name]))
        elif _parent(name) not in released or _parent(name) in now:
            yield f"{name} is missing"


def _find_new_duties(released: Promises, now: Promises) -> Iterator[str]:
    for name, facts in now.items():
        is_added = name not in released and _parent(name) in released
        if is_added and facts.get("required") and not name.startswith("answer "):
            yield f"{name} is new and required"


def _parent(name: str) -> str:
    return name.rpartition(" ")[0]


def _compare_requests(before: Facts, now: Facts) -> Iterator[str]:
    changed = [fact for fact in FIXED if before.get(fact) != now.get(fact)]
    changed += [fact for fact in LEAST if fact in now and now[fact] > before.get(fact, float("-inf"))]
    changed += [fact for fact in MOST if fact in now and now[fact] < before.get(fact, float("inf"))]
    changed += [fact for fact in SETS if fact in now and not set(before.get(fact, [None])) <= set(now[fact])]
    changed += [fact for fact in ("pattern",) if fact in now and before.get(fact) != now[fact]]
    changed += [fact for fact in ("position",) if fact in before and before[fact] != now.get(fact)]
    changed += [fact for fact in ("required",) if fact in now and fact not in before]
    yield from (f"{fact} is {now.get(fact, 'none')} instead of {before.get(fact, 'none')}" for fact in changed)


def _compare_answers(before: Facts, now: Facts) -> Iterator[str]:
    if "required" in before and "required" not in now:
        yield "may be missing"
    if added := set(now.get("types", ())) - set(before.get("types", ())):
        yield f"may be {', '.join(sorted(added))}"
    if lost := set(before.get("values", ())) - set(now.get("values", before.get("values", ()))):
        yield f"is never {', '.join(sorted(lost))}"
