"""Moving a tenant to another embedding model: begun, watched, switched and ended by its admin.

While a change is under way every entry gets vectors of both models, searches use those of the model in use, and the
tenant can be switched to the other and back in one update. `app.knowledge.reembedding.jobs` makes the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.db.database import Database
from app.db.queries.search import records
from app.db.queries.search.search import VectorSpace
from app.db.queries.tenants.tenants import list_models
from app.db.queries.work import reembedding as db
from app.db.queries.work.reembedding import ChangeRow
from app.db.session import Row, TenantSession
from app.embeddings.models import ALIASES
from app.embeddings.provider import EmbeddingModel, EmbeddingProvider
from app.errors import Conflict, InvalidInput, ModelChangeNotFound, TenantNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.queue.jobs import JobQueue
from app.knowledge.tenants.directory import TenantContext, TenantDirectory

State = Literal["filling", "ready", "switched", "dropping"]

SUBJECT = "model"
TRIES = 5
"""Times that a switch makes what vectors came in meanwhile, before it asks to be tried again."""

ENDING = "the vectors of the former change are still being removed; try again in a moment"


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A tenant's change of model, as its admin sees it.

    Attributes:
        state: `filling`, then `ready`, then `switched` (and `ready` again once switched back), at its end `dropping`.
        old, new: the model that the change began with, and the one that it leads to.
        rate: entries to embed a minute; None: as many as the provider takes.
        switch_at_overlap: least overlap at which the tenant is switched by itself; None: by hand only.
        entries: how many the tenant has.
        waiting, refused: those without vectors of the model that is not in use: to be made; refused by its provider.
        progress: share of the entries that have theirs, 0 to 1.
        served: whether this service has a provider of the model that is not in use; if not, the work waits.
        comparison: what the searches of both models have in common, once that is known.
    """

    state: State
    old: EmbeddingModel
    new: EmbeddingModel
    rate: int | None
    switch_at_overlap: float | None
    entries: int
    waiting: int
    refused: int
    progress: float
    served: bool
    comparison: Mapping[str, Any] | None
    started_at: datetime
    ready_at: datetime | None
    switched_at: datetime | None


class ReembeddingService:
    """Begins, shows, switches and ends the change of model of one tenant at a time."""

    def __init__(
        self,
        database: Database,
        providers: Mapping[int, EmbeddingProvider],
        tenants: TenantDirectory,
        embedder: EntryEmbedder,
        jobs: JobQueue,
        *,
        exact_limit: int,
    ) -> None:
        self._database = database
        self._trail = AuditTrail(database)
        self._providers = providers
        self._tenants = tenants
        self._embedder = embedder
        self._jobs = jobs
        self._exact_limit = exact_limit

    async def start(
        self,
        tenant_id: UUID,
        *,
        provider: str | None = None,
        name: str | None = None,
        dimensions: int | None = None,
        rate: int | None = None,
        switch_at_overlap: float | None = 0.0,
        actor: str = "service",
    ) -> ModelChange:
        """Begin to move to a registered model; for a change to it that is under way, set its pace anew.

        What is left out of the model is what the only one that fits has. Raises InvalidInput for a model that is not
        registered or not served here, and Conflict for one in use and while another change is under way.
        """
        if rate is not None and rate < 1:
            raise InvalidInput.of("rate", "must be a whole number of 1 or more, or null")
        if switch_at_overlap is not None and not 0 <= switch_at_overlap <= 1:
            raise InvalidInput.of("switch_at_overlap", "must be a number between 0 and 1, or null")
        async with (
            self._trail.attempt(tenant_id, actor, "model.reembed"),
            self._database.tenant_session(tenant_id) as session,
        ):
            rows = await list_models(session)
            in_use = await db.lock_tenant(session)
            if in_use is None:
                raise TenantNotFound("the tenant does not exist")
            target = self._choose(rows, in_use, provider, name, dimensions)
            change = await db.fetch_change(session)
            if change is None and target == in_use:
                raise Conflict("the tenant is on this model already")
            if change is not None and (change.to_model != target or change.state == "dropping"):
                raise Conflict(
                    ENDING
                    if change.state == "dropping"
                    else "the tenant is being moved to another model; end that first"
                )
            if change is None:
                await db.start_change(session, in_use, target, rate, switch_at_overlap)
                await self._note(session, actor, "model.reembed", rows, target)
            else:
                await db.adjust_change(session, rate, switch_at_overlap)
                await self._note(session, actor, "model.pace", rows, target)
            await self._jobs.enqueue(session, "reembed", SUBJECT)
        self._jobs.wake()
        return await self.status(tenant_id)

    async def status(self, tenant_id: UUID, *, reader: str | None = None) -> ModelChange:
        """How far the tenant's change has come; noted when `reader` says who wants to know.

        Raises ModelChangeNotFound.
        """
        async with (
            self._trail.attempt(tenant_id, reader, "model.read"),
            self._database.tenant_session(tenant_id) as session,
        ):
            change = _found(await db.fetch_change(session))
            models = {row["id"]: read_model(row) for row in await list_models(session)}
            if reader is not None:
                await records.write_audit(session, reader, "model.read", [], {})
        state: State = change.state
        if state == "ready" and change.current == change.to_model:
            state = "switched"
        done = change.entries if change.visited_all else min(change.visited, change.entries)
        lacking = change.waiting + change.refused
        return ModelChange(
            state=state,
            old=models[change.from_model],
            new=models[change.to_model],
            rate=change.rate,
            switch_at_overlap=change.switch_at,
            entries=change.entries,
            waiting=change.waiting,
            refused=change.refused,
            progress=round(max(0.0, min(1.0, (done - lacking) / change.entries)), 4)
            if change.entries
            else 1.0,
            served=change.other in self._providers,
            comparison=change.comparison,
            started_at=change.started_at,
            ready_at=change.ready_at,
            switched_at=change.switched_at,
        )

    async def switch(self, tenant_id: UUID, *, back: bool = False, actor: str = "service") -> ModelChange:
        """Let the tenant search with the new model from now on, or with the old one again.

        Raises ModelChangeNotFound, Conflict while the model cannot take over, and EmbeddingUnavailable.
        """
        async with self._trail.attempt(tenant_id, actor, "model.switch"):
            for _ in range(TRIES):
                if await self.try_switch(tenant_id, back=back, actor=actor):
                    return await self.status(tenant_id)
                # Entries written a moment ago.
                async with self._database.tenant_session(tenant_id) as session:
                    change = _found(await db.fetch_change(session))
                await self._embedder.embed_for(await self.other_context(tenant_id, change))
            raise Conflict("entries are written faster than they get their vectors; try again in a moment")

    async def try_switch(self, tenant_id: UUID, *, back: bool, actor: str) -> bool:
        """Switch, unless entries lack vectors that can be made. Raises as `switch` does.

        Nobody writes entries while it is looked and decided, so that none is lost from sight by the switch.
        """
        async with self._database.tenant_session(tenant_id) as session:
            in_use = await db.lock_tenant(session)
            change = _found(await db.fetch_change(session))
            target = change.from_model if back else change.to_model
            if change.state != "ready":
                raise Conflict(
                    ENDING if change.state == "dropping" else "the new model's vectors are not complete yet"
                )
            if target == in_use:
                return True
            if target not in self._providers:
                raise Conflict("this service has no provider of that model; set EMBEDDING_NEXT_PROVIDER")
            searchable = change.passages <= self._exact_limit or change.index_state == "ready"
            if searchable and await db.count_lagging(session, target):
                return False
            if searchable:
                await db.use_model(session, target)
                await self._note(session, actor, "model.switch", await list_models(session), target)
            else:
                await self._jobs.enqueue(session, "reembed", SUBJECT)
        if not searchable:
            raise Conflict("the index of that model's vectors is not complete yet; it is being made")
        self._tenants.forget(tenant_id)
        return True

    async def end(self, tenant_id: UUID, *, actor: str = "service") -> None:
        """Stay with the model in use, and remove the vectors of the other in the background.

        Raises ModelChangeNotFound.
        """
        async with (
            self._trail.attempt(tenant_id, actor, "model.drop"),
            self._database.tenant_session(tenant_id) as session,
        ):
            await db.lock_tenant(session)
            change = _found(await db.fetch_change(session))
            if change.state != "dropping":
                await db.begin_drop(session)
                await self._note(session, actor, "model.drop", await list_models(session), change.other)
            await self._jobs.enqueue(session, "reembed", SUBJECT)
        self._jobs.wake()

    async def other_context(self, tenant_id: UUID, change: ChangeRow) -> TenantContext:
        """The tenant as it would be on the model that is not in use."""
        self._tenants.forget(tenant_id)
        tenant = await self._tenants.context(tenant_id)
        async with self._database.tenant_session(tenant_id) as session:
            row = next(row for row in await list_models(session) if row["id"] == change.other)
        return replace(
            tenant,
            model=read_model(row),
            space=VectorSpace(change.other, row["dimensions"]),
            passages=change.passages,
            indexed=change.index_state == "ready",
        )

    def _choose(
        self,
        models: Sequence[Row],
        in_use: int,
        provider: str | None,
        name: str | None,
        dimensions: int | None,
    ) -> int:
        """The number of the one registered model that fits what was asked for."""
        wanted = {
            "provider": provider,
            "name": ALIASES.get(name, name) if name else None,
            "dimensions": dimensions,
        }
        given = {key: value for key, value in wanted.items() if value is not None}
        fitting = [m["id"] for m in models if all(m[key] == value for key, value in given.items())]
        served = [i for i in fitting if i in self._providers]
        if not given:
            fitting = served = [i for i in served if i != in_use]
            if not served:
                raise InvalidInput.of(
                    "model", "this service serves no other model; set EMBEDDING_NEXT_PROVIDER"
                )
        if not fitting:
            raise InvalidInput.of("model", "is not registered; the operator runs: knowledge model add")
        if not served:
            raise InvalidInput.of(
                "model", "is registered, but this service has no provider of it; set EMBEDDING_NEXT_PROVIDER"
            )
        if len(served) > 1:
            raise InvalidInput.of("model", "several models fit; name provider, model and dimensions")
        return int(served[0])

    async def _note(
        self,
        session: TenantSession,
        actor: str,
        action: records.Action,
        models: Sequence[Row],
        model_id: int,
    ) -> None:
        model = next(read_model(row) for row in models if row["id"] == model_id)
        detail = {"provider": model.provider, "model": model.name, "dimensions": model.dimensions}
        await records.write_audit(session, actor, action, [], detail)


def read_model(row: Row) -> EmbeddingModel:
    """The model of a row that `list_models` read."""
    return EmbeddingModel(
        row["provider"], row["name"], row["dimensions"], row["max_tokens"], row["similarity_threshold"]
    )


def _found(change: ChangeRow | None) -> ChangeRow:
    if change is None:
        raise ModelChangeNotFound("the tenant is in no change of model")
    return change
