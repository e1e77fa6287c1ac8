"""A tenant's change of embedding model, as its admin begins, watches, switches and ends it."""

from __future__ import annotations

from uuid import UUID

from app.db.database import Database
from app.db.queries.tenants import audit
from app.db.queries.work import reembedding as db
from app.errors import Conflict, InvalidInput
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.reembedding.change import ModelChange, show_change
from app.knowledge.reembedding.machine import ChangeMachine, require_change
from app.knowledge.reembedding.target import WantedModel

TRIES = 5
"""Times that a switch makes what vectors came in meanwhile, before it asks to be tried again."""


class ReembeddingService:
    """Begins, shows, switches and ends the change of model of one tenant at a time, and notes what is refused."""

    def __init__(
        self, database: Database, trail: AuditTrail, machine: ChangeMachine, embedder: EntryEmbedder
    ) -> None:
        self._database = database
        self._trail = trail
        self._machine = machine
        self._embedder = embedder

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
        wanted = WantedModel(provider, name or None, dimensions)
        async with self._trail.attempt(tenant_id, actor, "model.reembed"):
            change = await self._machine.begin(
                tenant_id, wanted, rate=rate, switch_at_overlap=switch_at_overlap, actor=actor
            )
        return show_change(change, self._machine.served)

    async def status(self, tenant_id: UUID, *, reader: str | None = None) -> ModelChange:
        """How far the tenant's change has come; noted when `reader` says who wants to know.

        Raises ModelChangeNotFound.
        """
        async with (
            self._trail.attempt(tenant_id, reader, "model.read"),
            self._database.tenant_session(tenant_id) as session,
        ):
            change = require_change(await db.fetch_change(session))
            if reader is not None:
                await audit.write_audit(session, reader, "model.read", [], {})
        return show_change(change, self._machine.served)

    async def switch(self, tenant_id: UUID, *, back: bool = False, actor: str = "service") -> ModelChange:
        """Let the tenant search with the new model from now on, or with the old one again.

        Raises ModelChangeNotFound, Conflict while the model cannot take over, and EmbeddingUnavailable.
        """
        async with self._trail.attempt(tenant_id, actor, "model.switch"):
            for _ in range(TRIES):
                switched = await self._machine.switch(tenant_id, back=back, actor=actor)
                if switched is not None:
                    return show_change(switched, self._machine.served)
                # Entries written a moment ago.
                change = require_change(await self._machine.read(tenant_id))
                await self._embedder.embed_for(await self._machine.other_context(tenant_id, change))
            raise Conflict("entries are written faster than they are embedded; try again in a moment")

    async def end(self, tenant_id: UUID, *, actor: str = "service") -> None:
        """Stay with the model in use, and remove the vectors of the other in the background.

        Raises ModelChangeNotFound.
        """
        async with self._trail.attempt(tenant_id, actor, "model.drop"):
            await self._machine.end(tenant_id, actor=actor)
