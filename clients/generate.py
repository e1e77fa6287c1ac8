"""Write the types of the clients from the contract: `make clients`.

For Python, models of the answers and typed dictionaries of the requests, from `app/contract`. For TypeScript, the
description of the service, from which openapi-typescript writes `schema.ts`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, is_dataclass
from datetime import date, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from app.contract import (
    access,
    administration,
    assets,
    entries,
    erasures,
    keys,
    models,
    problems,
    receipts,
    results,
    saved_searches,
    search,
    settings,
    sources,
    vocabulary,
)
from app.contract.validation import Unset, descriptions_of

FOLDER = Path(__file__).parent
PYTHON = FOLDER / "python" / "knowledge_client"
DESCRIPTION = FOLDER / "typescript" / "openapi.json"

ANSWERS = (
    results.SearchResult,
    results.SearchBatchResponse,
    search.WhyNot,
    entries.RelatedResponse,
    entries.BulkResponse,
    receipts.Feedback,
    receipts.Replay,
    receipts.SearchReceipt,
    receipts.FeedbackReport,
    saved_searches.Subscription,
    saved_searches.SubscriptionWithSecret,
    sources.SourceStatus,
    sources.Accepted,
    access.ChangedAccess,
    access.ItemReaders,
    access.SubjectAccess,
    erasures.Released,
    administration.Stats,
    administration.Usage,
    keys.ApiKeyWithSecret,
    models.ModelChange,
    settings.TenantSettings,
    settings.TenantLimits,
    problems.Problem,
)
"""The answers that the Python client reads; it also gets the types that they contain."""

PAGES = {
    "EntryPage": entries.Entry,
    "TagPage": entries.TagCount,
    "VersionPage": entries.FormerVersion,
    "AssetPage": assets.Asset,
    "SavedSearchPage": saved_searches.SavedSearch,
    "SourcePage": sources.Source,
    "SourceItemPage": sources.SourceItem,
    "ErasurePage": erasures.Erasure,
    "AuditPage": administration.AuditRecord,
    "RevokedTokenPage": administration.RevokedToken,
    "ApiKeyPage": keys.ApiKey,
    "TenantPage": administration.Tenant,
}
"""Pages of lists, and their items."""

NAMES: Mapping[type, str] = {
    sources.Accepted: "AcceptedManifest",
    administration.Stats: "Statistics",
    administration.Hour: "SearchHour",
    access.Counts: "ItemCounts",
    access.Refused: "RefusedItem",
    entries.FormerVersion: "Version",
    erasures.Place: "ErasedPlace",
    models.ModelInfo: "ModelName",
    models.Comparison: "ModelComparison",
    models.Decision: "ModelDecision",
    models.Quality: "ModelQuality",
}
"""The names of answers in the client that differ from those in the contract."""

DEFAULTS = {("Problem", "type"): '"about:blank"'}
"""Fields that an answer of another server may omit."""


@dataclass(frozen=True, slots=True)
class Form:
    """A typed dictionary: the fields of a request, without those that `base` has or the client takes by position.

    `text` describes it where the description of the request would not fit.
    """

    name: str
    request: type
    positional: frozenset[str] = frozenset()
    base: str | None = None
    text: str | None = None


FORMS = (
    Form("Weights", search.Weights),
    Form("SearchOptions", search.SearchQuery, frozenset({"query"}), text="Options of a search."),
    Form("SearchRequest", search.SearchQuery, base="SearchOptions"),
    Form(
        "EntryFields",
        entries.EntryDraft,
        frozenset({"content"}),
        text="Optional fields of an entry. Omitted fields are unchanged, or get the default of a new entry.",
    ),
    Form("EntryChanges", entries.EntryDraft, base="EntryFields"),
    Form("NewEntry", entries.NewEntry, base="EntryFields"),
    Form("AssetFields", assets.AssetFields),
    Form("AssetChanges", assets.AssetPatch, base="AssetFields"),
    Form("ManifestOptions", sources.Manifest, frozenset({"items"}), text="Options of a manifest."),
    Form("ManifestItem", sources.ManifestItem),
    Form("ListChange", access.ListChange),
    Form("AccessSelection", access.AccessSelection),
    Form("NewModelChange", models.NewModelChange),
)

WORDS = {
    "Mode": vocabulary.Mode,
    "GroupBy": vocabulary.GroupBy,
    "EntrySort": vocabulary.EntrySort,
    "AssetSort": vocabulary.AssetSort,
    "SavedSearchSort": vocabulary.SavedSearchSort,
    "TagSort": vocabulary.TagSort,
    "EntryType": vocabulary.EntryType,
    "WritableType": vocabulary.WritableType,
    "Role": vocabulary.Audience,
    "Scope": vocabulary.Scope,
    "AssetStatus": assets.AssetStatus,
    "ItemState": sources.ItemState,
    "AssetsFate": sources.AssetsFate,
}
"""Sets of values that have a name in the client; those of other fields are written out."""

OPTIONAL = {("ManifestItem", "name")}
"""Fields that the service fills in where a request omits them."""

NOTICE = "Generated from the service's contract by `make clients`: change that, not this file."


def write_models() -> str:
    """The module of answers."""
    parts = [
        f'"""Answers of the service. {NOTICE}"""',
        "from datetime import date, datetime\nfrom typing import Any\nfrom uuid import UUID",
        "from knowledge_client.answers import Answer",
    ]
    written: dict[type, str] = {}
    for answer in (*ANSWERS, *PAGES.values()):
        for kind in _find_parts(answer):
            if kind not in written:
                written[kind] = _write_model(kind)
    parts += written.values()
    parts += [
        f'class {name}(Answer):\n    """A page of a list; without `next_cursor` it is the last one."""\n'
        f"\n    items: list[{_name(item)}]\n    next_cursor: str | None = None"
        for name, item in PAGES.items()
    ]
    named = {inner for kind in written for hint in _own_hints(kind).values() for inner in _find_answers(hint)}
    names = {_name(kind) for kind in (*ANSWERS, *PAGES.values(), *named)}
    return _format([*parts, f"__all__ = {sorted(names | PAGES.keys())!r}"])


def write_fields() -> str:
    """The module of requests."""
    parts = [
        f'"""Fields of requests. {NOTICE}"""',
        "from collections.abc import Mapping, Sequence\nfrom datetime import datetime\n"
        "from typing import Any, Literal, Required, TypedDict\nfrom uuid import UUID",
        "Id = UUID | str",
        "\n".join(f"{name} = {_literal(kind)}" for name, kind in WORDS.items()),
    ]
    bases: dict[str, set[str]] = {}
    for form in FORMS:
        skipped = form.positional | bases.get(form.base or "", set())
        bases[form.name] = {f.name for f in dataclasses.fields(form.request)}.difference(form.positional)
        parts.append(_write_form(form, skipped))
    names = sorted(["Id", *WORDS, *(form.name for form in FORMS)])
    return _format([*parts, f"__all__ = {names!r}"])


def _find_parts(kind: type) -> Iterator[type]:
    """The types that a model needs, each after those that it needs, and itself."""
    for base in reversed(kind.__mro__[1:]):
        if is_dataclass(base):
            yield from _find_parts(base)
    for hint in _own_hints(kind).values():
        for inner in _find_answers(hint):
            yield from _find_parts(inner)
    yield kind


def _find_answers(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and (is_typeddict(hint) or (is_dataclass(hint) and not _is_request(hint))):
        yield hint
    for inner in () if get_origin(hint) is Literal else get_args(hint):
        yield from _find_answers(inner)


def _is_request(kind: Any) -> bool:
    return hasattr(kind, "__pydantic_validator__")


def _own_hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    own = inspect.get_annotations(kind)
    return {name: hint for name, hint in hints.items() if name in own and name != "_"}


def _name(kind: type) -> str:
    return NAMES.get(kind, kind.__name__)


def _write_model(kind: type) -> str:
    name = _name(kind)
    above = kind.__mro__[1]
    lines = [f"class {name}({_name(above) if is_dataclass(above) else 'Answer'}):", *_document(inspect.getdoc(kind))]
    given = {f.name for f in dataclasses.fields(kind) if f.default is MISSING} if is_dataclass(kind) else None
    for field, hint in _own_hints(kind).items():
        shown = _show_answer(hint)
        default = DEFAULTS.get((name, field), "None" if "None" in shown.split(" | ") else None)
        if default is None and given is not None and field not in given:
            raise TypeError(f"{name}.{field} has a default that the client does not have")
        lines.append(f"    {field}: {shown}" + ("" if default is None else f" = {default}"))
        lines += _document(_describe(kind, field, hint))
    return "\n".join(lines)


def _write_form(form: Form, skipped: set[str] | frozenset[str]) -> str:
    hints = get_type_hints(form.request, include_extras=True)
    lines = [
        f"class {form.name}({form.base or 'TypedDict'}, total=False):",
        *_document(form.text or inspect.getdoc(form.request)),
    ]
    for field in dataclasses.fields(form.request):
        if field.name in skipped:
            continue
        shown = _show_request(hints[field.name])
        if field.default is not MISSING or (form.name, field.name) in OPTIONAL:
            shown = _union([*shown.split(" | "), "None"])
        else:
            shown = f"Required[{shown}]"
        lines += [f"    {field.name}: {shown}", *_document(_describe(form.request, field.name, hints[field.name]))]
    return "\n".join(lines)


def _describe(shape: type, field: str, hint: Any) -> str | None:
    """The description of a field."""
    return descriptions_of(shape).get(field) or _find_description(hint)


def _find_description(hint: Any) -> str | None:
    for part in getattr(hint, "__metadata__", ()):
        if isinstance(part, FieldInfo) and part.description:
            return part.description
    inner = () if get_origin(hint) is Literal else get_args(hint)
    return next((text for each in inner if (text := _find_description(each))), None)


def _document(text: str | None) -> list[str]:
    """A docstring, wrapped, without its list of attributes: their descriptions are with the fields."""
    if not text:
        return []
    paragraphs = [
        textwrap.fill(paragraph, 110, initial_indent="    ", subsequent_indent="    ").strip()
        for paragraph in inspect.cleandoc(text).split("\n\n")
        if not paragraph.startswith("Attributes:")
    ]
    body = "\n\n    ".join(paragraphs)
    mark = "r" if "\\" in body else ""
    return [f'    {mark}"""{body}"""' if "\n" not in body else f'    {mark}"""{body}\n    """']


def _show_answer(hint: Any) -> str:
    """The type of a field of an answer: open to values that a newer service adds."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        formats = [p.json_schema_extra for p in hint.__metadata__ if isinstance(p, FieldInfo) and p.json_schema_extra]
        return "UUID" if {"format": "uuid"} in formats else _show_answer(args[0])
    if origin is NotRequired:
        return _union([_show_answer(args[0]), "None"])
    if origin in (Union, UnionType):
        return _union([_show_answer(each) for each in args])
    if origin is Literal:
        return "str"
    if origin is Sequence:
        return f"list[{_show_answer(args[0])}]"
    if origin in (Mapping, dict):
        return f"dict[str, {_show_answer(args[1])}]"
    if _is_request(hint):
        values = {_show_answer(inner) for inner in get_type_hints(hint, include_extras=True).values()}
        return f"dict[str, {values.pop() if len(values) == 1 else 'Any'}]"
    return _show_plain(hint)


def _show_request(hint: Any) -> str:
    """The type of a field of a request."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _show_request(args[0])
    if origin in (Union, UnionType):
        return _union([_show_request(each) for each in args if each is not Unset])
    if origin is Literal:
        return next((name for name, kind in WORDS.items() if kind == hint), _literal(hint))
    if origin in (Sequence, list):
        return f"Sequence[{_show_request(args[0])}]"
    if origin in (Mapping, dict):
        return f"Mapping[str, {_show_request(args[1])}]"
    if hint is UUID:
        return "Id"
    return _show_plain(hint)


def _show_plain(hint: Any) -> str:
    if hint is Any:
        return "Any"
    if hint is NoneType:
        return "None"
    if isinstance(hint, type) and (
        is_dataclass(hint) or is_typeddict(hint) or hint in (str, int, float, bool, UUID, datetime, date)
    ):
        return _name(hint)
    raise TypeError(f"no type of the client for {hint!r}")


def _union(parts: Sequence[str]) -> str:
    return " | ".join(dict.fromkeys(parts))


def _literal(kind: Any) -> str:
    return f"Literal[{', '.join(json.dumps(value) for value in get_args(kind))}]"


def _format(parts: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-"],
        input="\n\n".join(parts),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def describe_service() -> str:
    """The service's description for openapi-typescript, without the responses that the client throws as errors."""
    from app.main import create_app
    from app.settings import Settings

    document = create_app(Settings()).openapi()
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"] = {
                status: {name: part for name, part in response.items() if name not in ("headers", "links")}
                for status, response in operation["responses"].items()
                if status < "400"
            }
    return json.dumps(document, indent=1)


def main() -> None:
    """Write all files."""
    for path, text in (
        (PYTHON / "models.py", write_models()),
        (PYTHON / "fields.py", write_fields()),
        (DESCRIPTION, describe_service()),
    ):
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
