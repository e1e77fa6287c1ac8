"""Who may read and write a source and its items: what a manifest gives, and what stays as it is.

The writers of a source are among the readers of each of its items: those who keep a source equal to its origin see all
of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.errors import FieldError, InvalidInput
from app.knowledge.entries.drafts import Unset
from app.knowledge.principals import MAX_PRINCIPALS, RULE, is_principal_list, own_list
from app.knowledge.sources.manifest import ManifestItem

Given = Sequence[str] | Unset | None


@dataclass(frozen=True, slots=True)
class Access:
    """The readers and writers of a source, in the order of the database."""

    readers: Sequence[str] | None = None
    writers: Sequence[str] | None = None

    def changed_by(self, readers: Given, writers: Given) -> Access:
        """The access after a manifest that gives these lists. Raises InvalidInput."""
        for name, given in (("readers", readers), ("writers", writers)):
            if not isinstance(given, Unset) and given is not None and not is_principal_list(given):
                raise InvalidInput.of(name, RULE)
        after_writers = self.writers if isinstance(writers, Unset) else writers
        after_readers = self.readers if isinstance(readers, Unset) else readers
        if after_writers is not None:
            after_writers = own_list("writers", after_writers)
        if after_readers is not None:
            after_readers = _with(after_readers, after_writers, "readers")
            after_readers = own_list("readers", after_readers)
        return Access(after_readers, after_writers)

    def of_items(self, items: Iterable[ManifestItem]) -> dict[str, Sequence[str] | None]:
        """The readers of each item, by its external id; None: those of the source. Raises InvalidInput."""
        found: dict[str, Sequence[str] | None] = {}
        errors: list[FieldError] = []
        for number, item in enumerate(items):
            found[item.external_id] = None
            if item.readers is None:
                continue
            if self.writers is None:
                raise InvalidInput.of(
                    "writers", "is required for a source whose items have readers: they see all of its items"
                )
            try:
                found[item.external_id] = _with(item.readers, self.writers, f"items.{number}.readers")
            except InvalidInput as error:
                errors += error.errors
        if errors:
            raise InvalidInput(errors[:MOST_ERRORS])
        return found


MOST_ERRORS = 20


def _with(readers: Sequence[str], writers: Sequence[str] | None, field: str) -> list[str]:
    """Readers and writers together, in the order of the database. Raises InvalidInput if they are too many."""
    both = sorted({*readers, *(writers or ())})
    if len(both) > MAX_PRINCIPALS:
        raise InvalidInput(
            [FieldError(field, f"and the source's writers must be at most {MAX_PRINCIPALS} together")]
        )
    return both
