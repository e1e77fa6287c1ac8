"""Describe types, flags, principals, audited actions, times and searches in words."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from app.contract.fields import MAX_PRINCIPALS, PRINCIPAL_RULE, is_principal
from app.errors import InvalidInput

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


def write_moment(moment: datetime) -> str:
    """A time as a picker shows it, if it has whole seconds; the picker sends the same text back."""
    moment = moment.astimezone(UTC)
    if moment.microsecond:
        return moment.isoformat()
    return moment.replace(tzinfo=None).isoformat().removesuffix(":00")


def read_moment(text: str) -> str:
    """A picker's text with its time zone; any other text stays as it is."""
    text = text.strip()
    if _DAY.fullmatch(text):
        return f"{text}T00:00:00Z"
    return f"{text}Z" if _LOCAL.fullmatch(text) else text


def picker_of(text: str, kind: str) -> str:
    """The type of a field with this text: `kind`, `date` or `datetime-local`, or `text` for what it cannot show."""
    pattern = _DAY if kind == "date" else _LOCAL
    return kind if not text or pattern.fullmatch(text) else "text"


LISTS: Mapping[str, str] = {"readers": "Who may read", "writers": "Who may change"}
"""The lists of an item, as forms and pages name them."""

SHOWN = 60
"""Characters of a refused name that its message repeats."""


def name_principal(principal: str) -> str:
    """A principal in words, such as `finance (group)`."""
    kind, _, name = principal.partition(":")
    return f"{name} ({kind})"


def name_reason(reason: str) -> str:
    """The reason of a refusal, with the list as forms name it."""
    name, colon, rest = reason.partition(": ")
    return f"{LISTS[name]}: {rest}" if colon and name in LISTS else reason


def write_principals(principals: Sequence[str] | None) -> str:
    """The text of a form: one principal per line, and none where the list is null, which means all."""
    return "\n".join(write_list([each]) for each in principals or ())


def read_principals(text: str, field: str) -> list[str] | None:
    """Parse principals separated by commas or line breaks; None for an empty text, which means all.

    A name with a comma is in double quotes, and blanks around the colon are ignored. Raises InvalidInput.
    """
    if not text.strip():
        return None
    try:
        items = read_list(text)
    except csv.Error:
        raise InvalidInput.of(field, "must be separated by commas or line breaks") from None
    found = [":".join(part.strip() for part in item.split(":", 1)) for item in items]
    for each in found:
        if not is_principal(each):
            raise InvalidInput.of(field, f"{each[:SHOWN]!r} {PRINCIPAL_RULE}")
    if not 1 <= len(found) <= MAX_PRINCIPALS:
        raise InvalidInput.of(field, f"must be 1 to {MAX_PRINCIPALS} groups and users, or empty for all")
    return found


def read_lists(texts: Mapping[str, str]) -> dict[str, list[str] | None]:
    """The lists of a form. Raises InvalidInput."""
    return {name: read_principals(texts[name], name) for name in LISTS}


TYPES: Mapping[str, str] = {
    "fact": "fact",
    "summary": "summary",
    "template": "template",
    "decision": "decision",
    "lesson": "lesson",
    "temp_note": "temporary note",
    "insight": "insight",
    "chunk": "passage of a document",
}


def name_type(entry_type: str) -> str:
    """The name of a type; an unknown type is its own name."""
    return TYPES.get(entry_type, entry_type)


FLAGS: Mapping[str, str] = {
    "invisible_text": "invisible text",
    "zero_width": "characters without a width",
    "secret": "a secret, such as a key",
    "instructions": "instructions to language models",
}


def name_flag(flag: str) -> str:
    """The name of a flag; an unknown flag is its own name."""
    return FLAGS.get(flag, flag)


ACTIONS: Mapping[str, str] = {
    "access": "request without the role for it",
    "access.all": "request that ignores readers and writers",
    "access.read": "readers looked up",
    "asset.delete": "document deleted",
    "asset.retry": "document processed again",
    "asset.update": "document changed",
    "asset.upload": "document uploaded",
    "audit.read": "audit trail read",
    "entry.delete": "entry deleted",
    "entry.purge": "expired entries removed",
    "entry.update": "entry changed",
    "entry.write": "entry stored",
    "erasure.create": "erasure",
    "erasure.read": "erasure read",
    "feedback.read": "feedback read",
    "feedback.write": "feedback given",
    "model.drop": "vectors of a model removed",
    "model.pace": "pace of a model change set",
    "model.read": "model change read",
    "model.reembed": "model change or rebuild started",
    "model.switch": "model switched",
    "quarantine.read": "quarantine read",
    "quarantine.release": "quarantine released",
    "saved_search.delete": "saved search deleted",
    "saved_search.write": "search saved",
    "search.read": "receipts of searches read",
    "settings.read": "settings read",
    "settings.tune": "weights tuned by feedback",
    "settings.update": "settings changed",
    "source.delete": "source deleted",
    "source.write": "source listed",
    "stats.read": "statistics read",
    "subscription.confirm": "subscription confirmed",
    "subscription.delete": "subscription ended",
    "subscription.list": "subscriptions read",
    "subscription.write": "subscription stored",
    "tenant.export": "tenant exported",
    "tenant.import": "entries imported",
    "token.list": "revoked tokens read",
    "token.revoke": "token revoked",
}


def name_action(action: str) -> str:
    """The name of an action; an unknown action is its own name."""
    return ACTIONS.get(action, action)


LABELS = {
    "tags": "Tags",
    "tags_match": "Tags match",
    "role": "Audience",
    "source": "Source",
    "scope": "Scope",
    "min_confidence": "Minimum confidence",
    "entry_type": "Entry type",
    "asset_id": "Documents",
    "created_after": "Created from",
    "created_before": "Created before",
    "updated_after": "Changed from",
    "updated_before": "Changed before",
    "as_of": "As it was at (UTC)",
    "metadata": "Metadata contains",
    "filter": "Conditions",
    "include_superseded": "Include superseded entries",
    "mode": "Mode",
    "fusion": "Fusion",
    "rerank": "Reranker",
    "weights": "Weights",
    "weights.semantic": "Semantic weight",
    "weights.keyword": "Keyword weight",
    "rrf_k": "RRF constant",
    "similarity_threshold": "Minimum similarity",
    "diversity": "Diversity",
    "ef_search": "Search effort (ef_search)",
    "boost": "Boost",
    "limit": "Results per page",
    "group_by": "Group results",
    "query_embedding": "Query vector",
    "explain": "Explain each result",
}
"""The parameters of POST /knowledge/search, in the order of their form."""

VALUES: Mapping[tuple[str, str], str] = {
    **{("entry_type", entry_type): name for entry_type, name in TYPES.items()},
    ("source", "entry"): "written entries",
    ("source", "asset"): "documents",
    ("mode", "semantic"): "semantic only",
    ("mode", "keyword"): "keyword only",
    ("boost", "type"): "by type",
    ("boost", "access"): "frequently read",
    ("group_by", "asset"): "by document",
}
"""Values that people see under another name."""

UNSAID = frozenset({"query", "cursor", "explain", "facets"})
"""Parameters that a description omits: they do not change which results a search has."""


def describe_search(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and value of each parameter of a request, without its query."""
    order = list(LABELS)
    for name in sorted(request, key=lambda name: order.index(name) if name in order else len(order)):
        if name not in UNSAID and request[name] is not None:
            yield LABELS.get(name, name), _say(name, request[name])


def _say(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "query_embedding":
        return f"{len(value)} numbers"
    if name == "weights":
        return ", ".join(f"{leg} {value[leg]:g}" for leg in ("semantic", "keyword") if leg in value)
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    if isinstance(value, list):
        return ", ".join(_say(name, item) for item in value)
    return VALUES.get((name, str(value)), str(value))


def read_list(text: str) -> list[str]:
    """Parse items separated by commas; an item with a comma is in double quotes."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def write_list(items: Iterable[str]) -> str:
    """Format items for `read_list`."""
    return ", ".join(_quoted(item) if set(item) & set(',"\r\n') else item for item in items)


def _quoted(item: str) -> str:
    return '"' + item.replace('"', '""') + '"'
