"""Changes of lists of principals: a new list, or principals to add and to remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.db.queries.knowledge.access import Lists
from app.errors import FieldError, InvalidInput
from app.knowledge.entries.drafts import UNSET, Unset
from app.knowledge.principals import MAX_PRINCIPALS, RULE, is_principal, is_principal_list

Principals = Sequence[str] | None
ListName = Literal["readers", "writers"]


@dataclass(frozen=True, slots=True)
class ListChange:
    """A change of one list: `set` replaces it (None: all), otherwise principals are added and removed."""

    set: Principals | Unset = UNSET
    add: Sequence[str] = ()
    remove: Sequence[str] = ()

    def check(self, field: str) -> None:
        """Raise InvalidInput for principals that are none, and for a change without any."""
        if not isinstance(self.set, Unset):
            if self.add or self.remove:
                raise InvalidInput.of(field, "must have either set, or add and remove")
            if self.set is not None and not is_principal_list(self.set):
                raise InvalidInput.of(f"{field}.set", RULE)
            return
        for name, given in (("add", self.add), ("remove", self.remove)):
            if len(given) > MAX_PRINCIPALS or not all(map(is_principal, given)):
                raise InvalidInput.of(
                    f"{field}.{name}", f"must be at most {MAX_PRINCIPALS} of group:NAME and user:SUB"
                )
        if not self.add and not self.remove:
            raise InvalidInput.of(field, "must have set, add or remove")

    def apply(self, stored: Principals, field: str) -> Principals:
        """The list after the change. Raises InvalidInput where it leaves no principal, or cannot be taken from all."""
        if not isinstance(self.set, Unset):
            return self.set
        if stored is None:
            if self.remove:
                raise InvalidInput([FieldError(field, "is null, which means all: set a list first")])
            return None  # they may already
        left = sorted((set(stored) | set(self.add)) - set(self.remove))
        if not left:
            raise InvalidInput([FieldError(field, "would be empty")])
        if len(left) > MAX_PRINCIPALS:
            raise InvalidInput([FieldError(field, f"would have more than {MAX_PRINCIPALS} principals")])
        return left


@dataclass(frozen=True, slots=True)
class AccessChange:
    """A change of who may read, and of who may change; None leaves a list as it is."""

    readers: ListChange | None = None
    writers: ListChange | None = None

    def check(self) -> None:
        """Raise InvalidInput for a change that changes nothing, or names no principals."""
        if self.readers is None and self.writers is None:
            raise InvalidInput.of("readers", "and writers must not both be absent")
        for field, change in (("readers", self.readers), ("writers", self.writers)):
            if change is not None:
                change.check(field)

    def apply(self, item: Lists) -> dict[ListName, Principals]:
        """The lists that differ after the change. Raises InvalidInput."""
        lists: dict[ListName, Principals] = {}
        if self.readers is not None:
            lists["readers"] = self.readers.apply(item.readers, "readers")
        if self.writers is not None:
            lists["writers"] = self.writers.apply(item.writers, "writers")
        return {name: after for name, after in lists.items() if after != getattr(item, name)}
