"""The form of a tenant's settings: texts, from which the changes of PATCH /admin/settings are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import FormData

from app.console.parts.entry_types import TYPES
from app.console.parts.search.form import CHOSEN, read_number
from app.errors import FieldError
from app.knowledge.tenants.limits import NAMES as LIMITS
from app.knowledge.tenants.settings import TYPE_WEIGHTS, TenantSettings
from app.web.models.administration import SettingsPatch
from app.web.problems import invalid_input

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
    """A filled-in form: a text for each of LABELS; that of a checkbox is `true` or empty."""

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
        values |= {f"limits.{name}": settings.limits.get(name) for name in LIMITS}
        return cls({name: _write(values[name]) for name in LABELS})

    @classmethod
    def read(cls, form: FormData) -> SettingsForm:
        """The submitted form; missing fields are empty."""
        return cls({n: text.strip() if isinstance(text := form.get(n), str) else "" for n in LABELS})

    def differences(self, stored: TenantSettings) -> Sequence[Changed]:
        """The fields whose texts differ from those of the stored settings."""
        shown = SettingsForm.of_settings(stored).texts
        return [Changed(LABELS[n], _say(n, shown[n]), _say(n, self.texts[n])) for n in self._changed(stored)]

    def changes(self, stored: TenantSettings) -> dict[str, Any]:
        """The changes to the stored settings; None resets one. Raises InvalidInput."""
        changed = self._changed(stored)
        given: dict[str, Any] = {}
        for name in changed:
            setting = name.partition(".")[0]
            if setting == "limits":
                given.setdefault("limits", {})[name.partition(".")[2]] = self._number(name, int)
            elif setting not in given:
                given[setting] = self._value(setting)
        try:
            return SettingsPatch.model_validate(given).given()
        except ValidationError as error:
            raise invalid_input(error) from None

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
    """The errors at the fields of the form; that of a whole setting stands at its first field."""
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
