"""What the conditions of a filter mean, in plain Python, and strategies for filters and entries."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Fields = Mapping[str, Any]
"""An entry: its fields by name; `metadata` is an object, and times are datetimes."""

KEYS = ("a", "b", "a.b", "ü", "", "😀", '"', "\\", "$", "*", "x y", "\n", "@.a", "last", "v0", "'", "/**/")
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
TEXTS = (
    "",
    "a",
    "b",
    "A",
    "ä",
    "z",
    "1",
    "true",
    "null",
    "😀",
    "\uffff",
    '"',
    "\\",
    "a\nb",
    "$v0",
    '") || (1 == 1',
    "x" * 300,
)
NUMBERS: tuple[float, ...] = (
    0, -0.0, 1, 1.0, -1, 0.1, 0.30000000000000004, 0.3, 1e22, -1e-7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1,
)  # fmt: skip
TIMES = tuple(START + n * timedelta(microseconds=1) for n in range(3))
SCALARS: tuple[Any, ...] = (None, True, False, *NUMBERS, *TEXTS)

scalars = st.sampled_from(SCALARS)
keys = st.sampled_from(KEYS)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)
metadata = st.dictionaries(keys, values, max_size=5)

OWN: Mapping[str, Sequence[Any]] = {
    "entry_type": ("fact", "lesson", "decision"),
    "title": ("A", "B", "😀", None),
    "tags": ("a", "b", "ü"),
    "roles": ("all", "dev", "qa"),
    "scope": ("global", "project"),
    "confidence": (0, 0.5, 0.7, 1),
    "is_verified": (True, False),
    "source": ("entry", "asset"),
    "external_id": ("e1", "e2", "e9", None),
    "asset_id": ("00000000-0000-0000-0000-000000000001", None),
    "language": ("english", "german"),
    "created_at": TIMES,
    "updated_at": TIMES,
    "expires_at": (*TIMES, None),
}
"""Values that filters use for the fields of an entry."""

IN_ORDER = ("title", "confidence", "external_id", "created_at", "updated_at", "expires_at")


def _written(value: Any) -> Any:
    """A value as JSON has it; each time in another zone."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone(timezone(timedelta(minutes=value.microsecond * 90 - 60))).isoformat()


def _tests(path: Any, known: Sequence[Any], *, in_order: bool) -> st.SearchStrategy[dict[str, Any]]:
    some = st.sampled_from(known).map(_written)
    bounds = [v for v in known if isinstance(v, (str, int, float, datetime)) and not isinstance(v, bool)]
    operators: dict[str, st.SearchStrategy[Any]] = {
        "eq": some,
        "ne": some,
        "in": st.lists(some, min_size=1, max_size=4),
        "exists": st.booleans(),
    }
    if in_order:
        operators |= dict.fromkeys(("gt", "gte", "lt", "lte"), st.sampled_from(bounds).map(_written))
    chosen = st.lists(st.sampled_from(sorted(operators)), min_size=1, max_size=3, unique=True)
    tests = chosen.flatmap(lambda names: st.fixed_dictionaries({name: operators[name] for name in names}))
    return tests.map(lambda found: {"field": path, **found})


_own = st.sampled_from(sorted(OWN)).flatmap(lambda n: _tests(n, OWN[n], in_order=n in IN_ORDER))
_metadata = st.lists(keys, min_size=1, max_size=3).flatmap(
    lambda path: _tests(["metadata", *path], SCALARS, in_order=True)
)
filters: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _metadata | _own,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda terms: {"and": terms})
        | st.lists(inner, min_size=1, max_size=3).map(lambda terms: {"or": terms})
        | inner.map(lambda term: {"not": term})
    ),
    max_leaves=6,
)


def passes(entry: Fields, given: Mapping[str, Any]) -> bool:
    """Whether an entry fulfils a filter."""
    if "and" in given:
        return all(passes(entry, term) for term in given["and"])
    if "or" in given:
        return any(passes(entry, term) for term in given["or"])
    if "not" in given:
        return not passes(entry, given["not"])
    path = given["field"]
    found = _find(entry["metadata"], path[1:]) if isinstance(path, list) else [entry[path]]
    found = [item for value in found for item in (value if isinstance(value, list) else [value])]
    return all(_test(found, name, wanted) for name, wanted in given.items() if name != "field")


def _find(metadata: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """The values at a path; each key looks into the objects of a list, one level deep."""
    found: list[Any] = [metadata]
    for key in path:
        objects = [item for value in found for item in (value if isinstance(value, list) else [value])]
        found = [item[key] for item in objects if isinstance(item, dict) and key in item]
    return found


def _test(found: Sequence[Any], operator: str, wanted: Any) -> bool:
    if operator == "exists":
        return any(item is not None for item in found) is wanted
    if operator == "ne":
        return not _test(found, "eq", wanted)
    if operator == "in":
        return any(_test(found, "eq", value) for value in wanted)
    return any(_compare(item, operator, wanted) for item in found)


def _compare(item: Any, operator: str, wanted: Any) -> bool:
    if isinstance(item, datetime):
        if wanted is None:
            return False
        item, wanted = item, datetime.fromisoformat(wanted)
    elif _is_number(item) and _is_number(wanted):
        item, wanted = Decimal(repr(item)), Decimal(repr(wanted))
    elif type(item) is not type(wanted) or isinstance(item, dict | list):
        return False
    if operator == "eq":
        return bool(item == wanted)
    if item is None or isinstance(item, bool):
        return False
    return bool({"gt": item > wanted, "gte": item >= wanted, "lt": item < wanted, "lte": item <= wanted}[operator])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
