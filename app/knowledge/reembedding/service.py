"""Start, show, switch and end a model change or a rebuild at an admin's request."""

from uuid import UUID

from app.contract.models import ModelChange, NewModelChange
from app.db.database import Database
from app.db.queries import reembedding as db
from app.errors import ModelChangeConflict
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.reembedding.machine import ChangeMachine, require_change, show_change

TRIES = 5
"""How often a switch embeds entries that were written in the meantime before it fails with Conflict."""


class ReembeddingService:
    """Starts, shows, switches and ends model changes and rebuilds; refused requests are recorded in the audit trail."""

    def __init__(self, database: Database, trail: AuditTrail, machine: ChangeMachine, embedder: EntryEmbedder) -> None:
        self._database = database
        self._trail = trail
        self._machine = machine
        self._embedder = embedder

    async def start(
        self, tenant_id: UUID, wanted: NewModelChange | None = None, *, rebuild: bool = False, actor: str = "service"
    ) -> ModelChange:
        """Start a change to a registered model; if it is already in progress, apply the terms to it.

        A change to the model in use, and with `rebuild` any, replaces all vectors with new ones of this model; searches
        stay complete. Raises InvalidInput for a model that is not registered or not served
        here, and Conflict while another change is in progress.
        """
        async with self._trail.attempt(tenant_id, actor, "model.reembed"):
            change = await self._machine.begin(tenant_id, wanted or NewModelChange(), rebuild=rebuild, actor=actor)
        return show_change(change, self._machine.served)

    async def status(self, tenant_id: UUID, *, reader: str | None = None) -> ModelChange:
        """Show the tenant's change; with `reader`, the request is recorded in the audit trail.

        Raises ModelChangeNotFound.
        """
        async with self._trail.writing(tenant_id, reader, "model.read") as session:
            change = require_change(await db.fetch_change(session))
            await self._trail.note_read(session, reader, "model.read")
        return show_change(change, self._machine.served)

    async def find(self, tenant_id: UUID, *, reader: str | None = None) -> ModelChange | None:
        """Show the change in progress, if there is one; with `reader`, the request is recorded in the audit trail."""
        async with self._trail.writing(tenant_id, reader, "model.read") as session:
            change = await db.fetch_change(session)
            await self._trail.note_read(session, reader, "model.read")
        return None if change is None else show_change(change, self._machine.served)

    @property
    def has_other_model(self) -> bool:
        """Whether this service has a model to which a tenant could move."""
        return len(self._machine.served) > 1

    async def switch(self, tenant_id: UUID, *, back: bool = False, actor: str = "service") -> ModelChange:
        """Switch the tenant's searches to the new model, or back to the old one.

        Raises ModelChangeNotFound, Conflict while the model cannot be used, and EmbeddingUnavailable.
        """
        async with self._trail.attempt(tenant_id, actor, "model.switch"):
            for _ in range(TRIES):
                switched = await self._machine.switch(tenant_id, back=back, actor=actor)
                if switched is not None:
                    return show_change(switched, self._machine.served)
                # The missing entries were written a moment ago: embed them now.
                change = require_change(await self._machine.read(tenant_id))
                await self._embedder.embed_for(await self._machine.other_context(tenant_id, change))
            raise ModelChangeConflict("entries are written faster than they are embedded; try again in a moment")

    async def end(self, tenant_id: UUID, *, actor: str = "service") -> ModelChange:
        """Keep the model in use, and remove the other model's vectors in the background; return the ended change.

        Raises ModelChangeNotFound.
        """
        async with self._trail.attempt(tenant_id, actor, "model.drop"):
            return show_change(await self._machine.end(tenant_id, actor=actor), self._machine.served)
