"""A random history of a tenant that keeps versions, searched as of past times."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.settings import SettingsPatch
from tests.knowledge.search.history import TAGS, History, Known


@dataclass
class PastHistory(History):
    """After each step, the state is remembered, and searches name one of the moments remembered.

    A version is one object in all of these states: it may get its vector after a moment.
    """

    moments: list[tuple[datetime, dict[UUID, Known]]] = field(default_factory=list)
    versions: dict[UUID, list[Known]] = field(default_factory=dict)

    async def play(self, steps: int) -> None:
        await self.services.tenants.change_settings(self.tenant.id, SettingsPatch(keep_versions_days=1))
        self.remember()
        actions = [
            *(self.write, self.write_many, self.rewrite, self.rewrite, self.retag, self.delete, self.expire),
            *(self.supersede, self.embed, self.embed),
        ]
        for _ in range(steps):
            await self.random.choice(actions)()
            self.remember()
            self.provider.down = self.random.random() < 0.2
            await self.search_past()
        self.provider.down = False
        await self.search()

    async def retag(self) -> None:
        if self.entries:
            known = self._pick()
            known.fields = {**known.fields, "tags": self.random.sample(TAGS, self.random.randint(0, 2))}
            await self._change(known, EntryDraft(tags=known.fields["tags"]))

    async def expire(self) -> None:
        """As in any history, but not twice: the model does not have the time of an expiry."""
        present = self.entries
        self.entries = {known.id: known for known in present.values() if not known.expired}
        await super().expire()
        self.entries = present

    def remember(self) -> None:
        state: dict[UUID, Known] = {}
        for entry_id, versions in self.versions.items():
            live = self.entries.get(entry_id)
            if live is None or _differ(live, versions[-1]):
                self._end(versions)
        for known in self.entries.values():
            versions = self.versions.setdefault(known.id, [])
            if not versions or _differ(known, versions[-1]):
                versions.append(replace(known, words=set(known.words)))
            versions[-1].vector = known.vector
            state[known.id] = versions[-1]
        self.moments.append((datetime.now(UTC), state))

    async def search_past(self) -> None:
        present = self.entries
        self.as_of, self.entries = self.random.choice(self.moments)
        await self.search()
        self.as_of, self.entries = None, present

    def _end(self, versions: list[Known]) -> None:
        """With the vectors of a version, earlier ones with the same text have theirs."""
        for known in versions:
            if known.future_vector is versions[-1].future_vector:
                known.vector = versions[-1].vector

    def _check_order(self, result: SearchResult) -> None:
        if self.as_of is None:
            super()._check_order(result)
        for hit in result:
            if self.as_of is not None:
                assert hit.validity is not None
                assert hit.validity.valid_from <= self.as_of
                assert hit.validity.valid_until is None or hit.validity.valid_until > self.as_of


def _differ(known: Known, other: Known) -> bool:
    """Whether these are two versions, vectors apart."""
    facts = ("words", "fields", "expired", "superseded", "successor")
    return known.future_vector is not other.future_vector or any(
        getattr(known, name) != getattr(other, name) for name in facts
    )
