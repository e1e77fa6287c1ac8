"""The form of a document: its title, tags, audience, metadata, and who may read and change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from fastapi import Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData

from app.console.parts.entry_form import keep_lists, read_fields, read_roles, read_tags, read_version
from app.console.parts.principals import LISTS, read_lists, write_principals
from app.console.parts.search.form import write_list
from app.console.rendering import pretty_json, render
from app.db.queries.knowledge.assets import Asset
from app.knowledge.ingestion.changes import AssetDraft
from app.knowledge.vocabulary import Audience
from app.web.bodies import read_metadata
from app.web.models.assets import AssetPatch
from app.web.problems import invalid_input

ASSET_TEXTS = ("title", "tags", "metadata", *LISTS)


@dataclass(frozen=True, slots=True)
class AssetForm:
    """A filled-in form; `version` is that of the document for which it was shown."""

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
        """The submitted form; missing fields are empty, but for the lists, which are those of the stored document.

        Raises InvalidInput if it has no version.
        """
        version = read_version(form.get("version"), "the page of the document")
        return cls(read_fields(form, ASSET_TEXTS) | keep_lists(form, stored), read_roles(form), version)

    def changes(self, stored: Asset) -> AssetDraft:
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
        try:
            return AssetPatch.model_validate(given).draft()
        except ValidationError as error:
            raise invalid_input(error) from None


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
