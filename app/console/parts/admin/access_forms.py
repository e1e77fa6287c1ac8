"""The forms of the page Access: an item, and a change of many items."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from starlette.datastructures import FormData

from app.console.parts.entry_form import read_fields
from app.console.parts.principals import LISTS, read_principals
from app.db.queries.knowledge.access import ListedKind
from app.errors import InvalidInput
from app.knowledge.permissions.changes import AccessChange, ListChange
from app.knowledge.permissions.overview import PLURALS
from app.knowledge.permissions.selection import AccessSelection
from app.knowledge.sources.manifest import SOURCE_NAME

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

    def selection(self) -> AccessSelection:
        """The items to change. Raises InvalidInput."""
        tag, named = self.texts["tag"], read_principals(self.texts["principal"], "principal")
        if named is not None and len(named) > 1:
            raise InvalidInput.of("principal", "must be one group or user")
        if not tag and named is None:
            raise InvalidInput.of("tag", "is needed, or a group or user in the lists")
        return AccessSelection(tags=[tag] if tag else None, principal=named[0] if named else None)

    def change(self) -> AccessChange:
        """What to do with the list. Raises InvalidInput."""
        name, action = self._choice("list", LISTS), self._choice("action", CHANGES)
        given = read_principals(self.texts["principals"], "principals")
        if action == "set":
            change = ListChange(set=given)
        elif given is None:
            raise InvalidInput.of("principals", "must name groups or users")
        else:
            change = ListChange(add=given) if action == "grant" else ListChange(remove=given)
        return AccessChange(**{name: change})

    def _choice(self, name: Literal["list", "action"], allowed: Mapping[str, str]) -> str:
        if self.texts[name] not in allowed:
            raise InvalidInput.of(name, f"must be one of {', '.join(allowed)}")
        return self.texts[name]
