"""Read the forms of entries and documents into fields of the API."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from fastapi import Request, Response
from starlette.datastructures import FormData

from app.console.parts.search.form import read_number
from app.console.parts.words import (
    LISTS,
    read_list,
    read_lists,
    read_moment,
    write_list,
    write_moment,
    write_principals,
)
from app.console.rendering import pretty_json, render
from app.contract.assets import Asset, AssetPatch
from app.contract.entries import DEFAULTS, Entry, EntryDraft, NewEntry
from app.contract.validation import validate
from app.contract.vocabulary import Audience
from app.errors import FieldError, InvalidInput
from app.knowledge.entries.entry import PLACE
from app.knowledge.languages import detect
from app.web.bodies import read_metadata

ENTRY_TEXTS = (
    *("content", "title", "entry_type", "tags", "confidence", "scope", "parent_id", "source_ids"),
    *("superseded_by_id", "metadata", "language", "expires_at", "external_id", *LISTS),
)

_ADDRESS = re.compile(r"(?:https?://[^/\s]*)?/console/entries/(?P<id>[0-9a-fA-F-]{36})(?:[/?#]\S*)?")

AREAS = frozenset({"content", "source_ids", "metadata", *LISTS})
"""Multi-line fields."""

OF_ASSETS = frozenset({"content", "title", "entry_type", "external_id", *LISTS})
"""Fields that a chunk gets from its asset."""


@dataclass(frozen=True, slots=True)
class EntryForm:
    """A filled-in form: a text for each field, and the checked boxes."""

    texts: Mapping[str, str]
    roles: Sequence[str]
    is_verified: bool

    @classmethod
    def empty(cls) -> EntryForm:
        """The form of a new entry."""
        texts = dict.fromkeys(ENTRY_TEXTS, "") | {"entry_type": "fact", "confidence": "1", "scope": "global"}
        return cls(texts, DEFAULTS.given()["roles"], False)

    @classmethod
    def of_entry(cls, entry: Entry) -> EntryForm:
        """The form of a stored entry."""
        texts = {name: _write(getattr(entry, name)) for name in ENTRY_TEXTS}
        texts |= {name: write_principals(getattr(entry, name)) for name in LISTS}
        texts["tags"] = write_list(entry.tags)
        texts["source_ids"] = "\n".join(map(str, entry.source_ids))
        place = _place(entry)
        own = {n: v for n, v in entry.metadata.items() if n not in place}
        texts["metadata"] = pretty_json(own) if own else ""
        return cls(texts, entry.roles, entry.is_verified)

    @classmethod
    def read(cls, form: FormData, stored: Entry | None = None) -> EntryForm:
        """The submitted form. Missing fields are empty; missing lists are the stored entry's."""
        texts = read_fields(form, ENTRY_TEXTS)
        if stored is not None:
            texts |= keep_lists(form, stored)
        return cls(texts, read_roles(form), form.get("is_verified") is not None)

    def new_draft(self) -> EntryDraft:
        """The fields of a new entry that differ from their defaults. Raises InvalidInput.

        An existing entry with this text then keeps its other fields.
        """
        defaults = DEFAULTS.given()
        given = {n: v for n, v in self._values().items() if v not in (None, "") and v != defaults.get(n)}
        return validate(NewEntry, given)

    def changes(self, stored: Entry) -> EntryDraft:
        """The changes to an entry: the fields that differ from the form as it was shown. Raises InvalidInput.

        A changed text has its language detected again, unless the stored language differs from the detected one.
        """
        shown = EntryForm.of_entry(stored)
        changed = {n for n in ENTRY_TEXTS if _as_sent(n, self.texts[n]) != _as_sent(n, shown.texts[n])}
        if stored.asset_id is not None:
            changed -= OF_ASSETS
        if changed & {"title", "content"} and stored.language != detect(stored.title, stored.content):
            changed.add("language")
        if set(self.roles) != set(shown.roles):
            changed.add("roles")
        if self.is_verified != shown.is_verified:
            changed.add("is_verified")
        given = {name: value for name, value in self._values().items() if name in changed}
        if "metadata" in given:
            given["metadata"] |= _place(stored)
        return validate(EntryDraft, given)

    def _values(self) -> dict[str, Any]:
        texts = self.texts
        empty_as_none = ("title", "language", "external_id")
        return {
            "content": texts["content"],
            "entry_type": texts["entry_type"],
            "scope": texts["scope"],
            **{name: texts[name].strip() or None for name in empty_as_none},
            **{name: read_id(texts[name]) or None for name in ("parent_id", "superseded_by_id")},
            "expires_at": read_moment(texts["expires_at"]) or None,
            "tags": read_tags(texts["tags"]),
            "roles": list(self.roles),
            "confidence": read_number(texts["confidence"], float),
            "source_ids": [read_id(text) for text in texts["source_ids"].replace(",", " ").split()],
            "metadata": read_metadata(texts["metadata"].strip()),
            "is_verified": self.is_verified,
            **read_lists(texts),
        }


async def read_texts(request: Request) -> FormData:
    """Read a form of texts; files are discarded."""
    async with request.form() as form:
        return form


def read_fields(form: FormData, names: Iterable[str]) -> dict[str, str]:
    """The texts of these fields, empty if missing. Browsers send each line break as two characters."""
    return {n: v.replace("\r\n", "\n") if isinstance(v := form.get(n), str) else "" for n in names}


def keep_lists(form: FormData, stored: Entry | Asset) -> dict[str, str]:
    """The texts of the lists that a form does not have: it changes no permissions that it did not show."""
    return {name: write_principals(getattr(stored, name)) for name in LISTS if name not in form}


def read_id(text: str) -> str:
    """The id in the address of an entry's page, which people can copy; any other text stays as it is."""
    address = _ADDRESS.fullmatch(text.strip())
    return address["id"] if address else text.strip()


def read_roles(form: FormData) -> list[str]:
    """The checked boxes of the audience."""
    return [role for role in form.getlist("roles") if isinstance(role, str)]


def read_tags(text: str) -> list[str]:
    """Parse tags separated by commas; a tag with a comma is in double quotes. Raises InvalidInput."""
    try:
        return read_list(text)
    except csv.Error:
        raise InvalidInput.of("tags", "must be separated by commas") from None


def read_version(text: object, page: str) -> int:
    """The version for which a form was made. Raises InvalidInput if it is missing, with the page to open instead."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidInput.of("version", f"is missing: open {page} and try again there")
    return int(text)


def errors_at(errors: Sequence[FieldError]) -> dict[str, str]:
    """The errors of each field of a form; an error of a list item belongs to its list."""
    found: dict[str, str] = {}
    for error in errors:
        name, _, place = error.field.partition(".")
        message = f"{int(place) + 1}: {error.message}" if re.fullmatch(r"\d{1,4}", place) else error.message
        found[name] = f"{found[name]}; {message}" if name in found else message
    return found


def _place(entry: Entry) -> dict[str, Any]:
    """The position of a chunk in its document: metadata that callers cannot write."""
    return {n: v for n, v in entry.metadata.items() if entry.asset_id is not None and n in PLACE}


def _as_sent(name: str, text: str) -> str:
    """The text as a browser sends it back: it keeps line breaks only in text areas, and normalises them."""
    if name in AREAS:
        return text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\r", "").replace("\n", "")


def _write(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.10g}"
    return write_moment(value) if isinstance(value, datetime) else str(value)


ASSET_TEXTS = ("title", "tags", "metadata", *LISTS)


@dataclass(frozen=True, slots=True)
class AssetForm:
    """A filled-in form; `version` is the version of the document for which it was shown."""

    texts: Mapping[str, str]
    roles: Sequence[str]
    version: int

    @classmethod
    def of_asset(cls, asset: Asset) -> AssetForm:
        """The form of a stored document."""
        texts = {
            "title": asset.title or "",
            "tags": write_list(asset.tags),
            "metadata": pretty_json(asset.metadata) if asset.metadata else "",
            **{name: write_principals(getattr(asset, name)) for name in LISTS},
        }
        return cls(texts, asset.roles, asset.version)

    @classmethod
    def read(cls, form: FormData, stored: Asset) -> AssetForm:
        """The submitted form. Missing fields are empty; missing lists are the stored document's.

        Raises InvalidInput if it has no version.
        """
        version = read_version(form.get("version"), "the page of the document")
        return cls(read_fields(form, ASSET_TEXTS) | keep_lists(form, stored), read_roles(form), version)

    def changes(self, stored: Asset) -> AssetPatch:
        """The fields that differ from the form as it was shown; an empty title restores the file's. Raises
        InvalidInput."""
        shown = AssetForm.of_asset(stored)
        values: dict[str, Any] = {
            "title": self.texts["title"].strip() or None,
            "tags": read_tags(self.texts["tags"]),
            "metadata": read_metadata(self.texts["metadata"].strip()),
            **read_lists(self.texts),
        }
        given = {name: value for name, value in values.items() if self.texts[name] != shown.texts[name]}
        if set(self.roles) != set(shown.roles):
            given["roles"] = list(self.roles)
        return validate(AssetPatch, given)


def render_asset_form(
    request: Request, form: AssetForm, asset: Asset, errors: dict[str, str], *, status: int = 200
) -> Response:
    """The page with the form. After 412 it overwrites the version that is stored now."""
    return render(
        request,
        "pages/asset_form.html",
        status=status,
        form=form,
        asset=asset,
        errors=errors,
        version=asset.version if status == 412 else form.version,
        is_stale=status == 412,
        all_roles=get_args(Audience),
    )
