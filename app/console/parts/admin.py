"""The forms of the pages Access and Settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from starlette.datastructures import FormData

from app.console.parts.forms import read_fields
from app.console.parts.search.form import CHOSEN, read_number
from app.console.parts.words import LISTS, TYPES, read_principals
from app.contract.access import AccessPatch, AccessSelection, ListChange, ListedKind
from app.contract.settings import LIMITS, TYPE_WEIGHTS, SettingsPatch, TenantSettings
from app.contract.sources import SOURCE_NAME
from app.contract.validation import validate
from app.errors import FieldError, InvalidInput
from app.knowledge.permissions.overview import PLURALS

CHANGES: Mapping[str, str] = {"grant": "add to", "revoke": "remove from", "set": "replace"}
"""What a change does with a list."""

TEXTS = {"tag": "", "principal": "", "list": "readers", "action": "grant", "principals": ""}
"""The texts of a change, with those of an empty form."""

_ADDRESS = re.compile(
    r"(?:https?://[^/\s]*)?/console/(?:access/)?(?P<place>entries|assets|sources)/(?P<key>[^/?#\s]+)\S*"
)


def read_item(text: str) -> tuple[ListedKind | None, UUID | str]:
    """The kind and the id or name of an item, by its address, its id or the name of a source.

    The kind is None for an id alone. Raises InvalidInput.
    """
    found = _ADDRESS.fullmatch(text.strip())
    key = found["key"] if found else text.strip()
    kind = next((kind for kind, place in PLURALS.items() if found and found["place"] == place), None)
    try:
        if kind != "source":
            return kind, UUID(key)
    except ValueError:
        pass
    if kind in (None, "source") and SOURCE_NAME.fullmatch(key):
        return "source", key
    raise InvalidInput.of("item", "must be an id, the address of a page, or the name of a source")


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """A form for a change of many items: a text for each of TEXTS."""

    texts: Mapping[str, str]

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> ChangeForm:
        """The form with these texts, and those of an empty form."""
        return cls({name: texts.get(name) or value for name, value in TEXTS.items()})

    @classmethod
    def read(cls, form: FormData) -> ChangeForm:
        """The submitted form."""
        return cls.of({name: text.strip() for name, text in read_fields(form, TEXTS).items()})

    def patch(self, *, dry_run: bool, cursor: str | None) -> AccessPatch:
        """The change of the next page of items. Raises InvalidInput."""
        tag, named = self.texts["tag"], read_principals(self.texts["principal"], "principal")
        if named is not None and len(named) > 1:
            raise InvalidInput.of("principal", "must be one group or user")
        if not tag and named is None:
            raise InvalidInput.of("tag", "is needed, or a group or user in the lists")
        where = AccessSelection(tags=[tag] if tag else None, principal=named[0] if named else None)
        return AccessPatch(where=where, dry_run=dry_run, cursor=cursor, **self._change())

    def _change(self) -> dict[str, ListChange]:
        """Read the change of a list. Raises InvalidInput."""
        name, action = self._choice("list", LISTS), self._choice("action", CHANGES)
        given = read_principals(self.texts["principals"], "principals")
        if action == "set":
            return {name: ListChange(set=given)}
        if given is None:
            raise InvalidInput.of("principals", "must name groups or users")
        return {name: ListChange(add=given) if action == "grant" else ListChange(remove=given)}

    def _choice(self, name: Literal["list", "action"], allowed: Mapping[str, str]) -> str:
        if self.texts[name] not in allowed:
            raise InvalidInput.of(name, f"must be one of {', '.join(allowed)}")
        return self.texts[name]


LEGS = ("semantic", "keyword")
LABELS = {
    "fusion": "Fusion",
    "weights.semantic": "Semantic weight",
    "weights.keyword": "Keyword weight",
    "similarity_threshold": "Minimum similarity",
    "rerank": "Reranker",
    "auto_tune": "Tune the weights by feedback",
    "verified_boost": "Boost of verified entries",
    **{f"type_weights.{name}": f"Boost of {words}" for name, words in TYPES.items()},
    "default_limit": "Results per page",
    "max_limit": "Maximum per page",
    "keep_query_text": "Keep the texts of queries",
    "keep_versions_days": "Keep versions, days",
    "purge_expired_after_days": "Remove expired after, days",
    "suspicious_content": "Suspicious content",
    "limits.requests_per_minute": "Requests per minute",
    "limits.concurrent_searches": "Concurrent searches",
    "limits.entries": "Entries",
    "limits.bytes": "Stored bytes",
    "limits.receipts": "Receipts",
    "limits.embedding_tokens_per_day": "Embedding tokens per day",
}
"""The fields of the form, by the names of the API, with the part after the dot for a part of a setting."""

FLAGS = ("auto_tune", "keep_query_text")
WHOLE = ("default_limit", "max_limit", "purge_expired_after_days", "keep_versions_days")
EMPTY = "default"
"""Shown for a field without a text: the service's default applies."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A field that differs, as shown to people."""

    label: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SettingsForm:
    """A filled-in form: a text for each of LABELS; a checkbox has `true` or the empty text."""

    texts: Mapping[str, str]

    @classmethod
    def of_settings(cls, settings: TenantSettings) -> SettingsForm:
        """The form of stored settings."""
        values: dict[str, Any] = {
            name: getattr(settings, name) for name in LABELS if "." not in name and name not in FLAGS
        }
        values |= {name: getattr(settings, name) or None for name in FLAGS}
        for leg in LEGS:
            values[f"weights.{leg}"] = None if settings.weights is None else getattr(settings.weights, leg)
        values |= {f"type_weights.{name}": settings.type_weights.get(name, 1.0) for name in TYPES}
        values |= {f"limits.{name}": getattr(settings.limits, name) for name in LIMITS}
        return cls({name: _write(values[name]) for name in LABELS})

    @classmethod
    def read(cls, form: FormData) -> SettingsForm:
        """The submitted form; missing fields are empty."""
        return cls({n: text.strip() if isinstance(text := form.get(n), str) else "" for n in LABELS})

    def differences(self, stored: TenantSettings) -> Sequence[Changed]:
        """The fields whose texts differ from the stored settings."""
        shown = SettingsForm.of_settings(stored).texts
        return [Changed(LABELS[n], _say(n, shown[n]), _say(n, self.texts[n])) for n in self._changed(stored)]

    def changes(self, stored: TenantSettings) -> SettingsPatch:
        """The changes to the stored settings; None resets one. Raises InvalidInput."""
        changed = self._changed(stored)
        given: dict[str, Any] = {}
        for name in changed:
            setting = name.partition(".")[0]
            if setting == "limits":
                given.setdefault("limits", {})[name.partition(".")[2]] = self._number(name, int)
            elif setting not in given:
                given[setting] = self._value(setting)
        return validate(SettingsPatch, given)

    def _changed(self, stored: TenantSettings) -> list[str]:
        shown = SettingsForm.of_settings(stored).texts
        return [name for name in LABELS if self.texts[name] != shown[name]]

    def _value(self, setting: str) -> Any:
        """The value of a whole setting other than the limits."""
        if setting == "weights":
            weights = {leg: self._number(f"weights.{leg}", float) for leg in LEGS}
            return {n: v for n, v in weights.items() if v is not None} or None
        if setting == "type_weights":
            weights = {name: self._number(f"type_weights.{name}", float) for name in TYPES}
            own = {n: v for n, v in weights.items() if v is not None and v != TYPE_WEIGHTS.get(n, 1.0)}
            return own or None
        if setting in FLAGS:
            return self.texts[setting] == "true"
        if setting in WHOLE:
            return self._number(setting, int)
        if setting in ("similarity_threshold", "verified_boost"):
            return self._number(setting, float)
        text = self.texts[setting]
        return CHOSEN.get(text, text) if setting == "rerank" and text else text or None

    def _number(self, name: str, kind: type[int] | type[float]) -> int | float | str | None:
        text = self.texts[name]
        return read_number(text, kind) if text else None


def errors_by_name(errors: Sequence[FieldError]) -> dict[str, str]:
    """The errors at the fields of the form; an error of a whole setting stands at its first field."""
    found: dict[str, str] = {}
    for error in errors:
        setting = error.field.partition(".")[0]
        parts = (name for name in LABELS if name == error.field or name.partition(".")[0] == setting)
        name = error.field if error.field in LABELS else next(parts, error.field)
        found[name] = f"{found[name]}; {error.message}" if name in found else error.message
    return found


def _say(name: str, text: str) -> str:
    if name in FLAGS:
        return "on" if text else "off"
    if name == "rerank" and text:
        return "on" if text == "true" else "off"
    return text or EMPTY


def _write(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
