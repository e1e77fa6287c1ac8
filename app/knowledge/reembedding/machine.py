"""The state machine of a model change, with all its transitions; what chooses its model, and what describes it.

    none ──begin──▶ filling ──complete──▶ ready ◀──switch──▶ switched
                       └────────────────────┴────────────────────┘
                                           end
                                            ▼
                                        dropping ──drop──▶ none

    from → to         method    cause
    none → filling    begin     POST /admin/reembed, `knowledge reembed`, MCP's `kb_rebuild_embeddings`
    filling           visit     the job: marks entries as pending for the new model, 500 at a time
    filling → ready   complete  the job, once all entries are embedded and indexed and the models are compared
    ready → switched  switch    POST /admin/reembed/switch, `knowledge reembed switch`, MCP, the console; the job:
                                `switches_by_itself`, from the evidence that `decide` requires
    switched → ready  switch    POST /admin/reembed/switch-back, `knowledge reembed back`, MCP, the console
    any → dropping    end       DELETE /admin/reembed, `knowledge reembed end`, MCP, the console
    dropping → none   drop      the job, once no vector of the model that is not in use is left

A change to the model in use is a rebuild. It needs no second set of vectors, no comparison and no switch:

    none ──begin──▶ filling ──finish──▶ switched ──end or the next begin──▶ none

    filling             the job replaces the vectors of the entries in place, in the order of their ids
    filling → switched  finish  the job, once all entries have been visited
    filling → none      end     the vectors that exist stay: old ones and new ones are of the same model

`ReembeddingService` handles the requests and `ReembeddingJob` runs the job. Both use the machine; it uses neither.

The state is stored in a row of `model_changes` and in the model of the tenant's row. The SQL of the transitions is in
`app/db/queries/reembedding.sql`. No trigger changes the state; triggers keep its guarantees (`alembic/sql/`):

- `embed_inserted` and `embed_updated` on `entries`, function `await_both_models` (model_changes.sql): in filling, ready
  and switched, an entry that is written becomes pending for both models.
- `keep_models_in_use` on `embeddings`, function of the same name (model_changes.sql): in dropping and none, a late
  vector of a model that is not in use is removed, and its entry becomes pending for the model in use.
- `count_inserted` and `count_deleted` on `embeddings`, function `count_passages` (statistics.sql): count the vectors of
  each model; `lacks_index` uses the counts.

Two definer functions take part: `queue.claim_job` (queue.sql) hands out the job, and `tenancy.delete_tenant`
(tenants.sql) removes the change with its tenant. Upkeep queues the job again if it was lost.
"""

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from uuid import UUID

from app.contract.administration import AuditAction
from app.contract.models import DEFAULT_OVERLAP, Comparison, ModelChange, NewModelChange, Quality
from app.contract.validation import UNSET, Unset, same_fields
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import reembedding as db
from app.db.queries.reembedding import ChangeRow
from app.db.queries.search import VectorSpace
from app.db.queries.tenants import RegisteredModel, list_models
from app.db.session import TenantSession
from app.embeddings.provider import ALIASES, EmbeddingModel
from app.errors import InvalidInput, ModelChangeConflict, ModelChangeNotFound, TenantNotFound
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.queue import JobQueue
from app.knowledge.reembedding.comparison import decide
from app.knowledge.tenants.directory import TenantContext, TenantDirectory


def choose_model(
    models: Sequence[RegisteredModel], wanted: NewModelChange | None, served: Collection[int], in_use: int
) -> RegisteredModel:
    """Find the only registered model that matches; without any description, the one that is not in use.

    With None, the model in use. Raises InvalidInput.
    """
    if wanted is None:
        if in_use not in served:
            raise InvalidInput.of("model", "this service has no provider for the tenant's model")
        return next(model for model in models if model.id == in_use)
    name = ALIASES.get(wanted.model, wanted.model) if isinstance(wanted.model, str) else None
    fitting = [
        m
        for m in models
        if wanted.provider in (None, UNSET, m.model.provider)
        and name in (None, m.model.name)
        and wanted.dimensions in (None, UNSET, m.model.dimensions)
    ]
    found = [m for m in fitting if m.id in served]
    if not wanted.names_model:
        found = [m for m in found if m.id != in_use]
        if not found:
            raise InvalidInput.of(
                "model",
                "this service has no second model; set EMBEDDING_NEXT_PROVIDER, or rebuild the vectors of the model"
                " in use",
            )
    if not fitting:
        raise InvalidInput.of("model", "is not registered; the operator must run: knowledge model add")
    if not found:
        raise InvalidInput.of(
            "model", "is registered, but this service has no provider for it; set EMBEDDING_NEXT_PROVIDER"
        )
    if len(found) > 1:
        raise InvalidInput.of("model", "several models match; name provider, model and dimensions")
    return found[0]


def show_change(change: ChangeRow, served: Collection[int]) -> ModelChange:
    """Convert the row of a change; `served` are the models with a provider in this service."""
    entries = change.vectors.entries
    visited = entries if change.visited_all else min(change.visited, entries)
    waiting, refused = change.vectors.waiting, change.vectors.refused
    if change.rebuilds:
        waiting, refused = entries - visited, min(change.rebuild_refused, visited)
        share = visited / entries if entries else 1.0
    else:
        share = (visited - waiting - refused) / entries if entries else 1.0
    return ModelChange(
        **same_fields(change, ModelChange) | {"old": change.old.info, "new": change.new.info},
        rebuild=change.rebuilds,
        entries=entries,
        waiting=waiting,
        refused=refused,
        progress=round(max(0.0, min(1.0, share)), 4),
        served=change.other in served,
        decision=decide(change),
    )


def switches_by_itself(change: ChangeRow) -> bool:
    """Whether a ready change is switched without its admin: after the first switch, only the admin switches."""
    return change.switched_at is None and decide(change).switch == "automatic"


SOURCES = {
    "queries": "queries of the tenant",
    "titles": "titles of its entries",
    "both": "queries of the tenant and titles of its entries",
}


def explain_change(change: ModelChange, *, with_comparison: bool = True) -> list[str]:
    """The comparison, the decision, and what keeps the change from advancing."""
    lines = []
    if change.refused:
        lines.append(
            f"the provider refuses {change.refused} entries: "
            + ("they keep their vectors" if change.rebuild else "they have no vector")
        )
    if change.failure is not None:
        lines.append(f"waiting: {change.failure}")
    if not change.served:
        lines.append("this service has no provider for the model that is not in use: set EMBEDDING_NEXT_PROVIDER")
    if change.comparison is not None and with_comparison:
        lines += _explain_comparison(change.comparison)
    switch = {
        "undecided": "undecided",
        "automatic": "the service switches by itself",
        "by_hand": "the switch is left to you",
    }[change.decision.switch]
    lines.append(f"{switch}: {change.decision.reason}")
    return lines


def _explain_comparison(found: Comparison) -> list[str]:
    lines = []
    if found.source is not None and found.overlap is not None and found.semantic_overlap is not None:
        lines.append(
            f"compared on {found.queries} {SOURCES[found.source]}: {found.semantic_overlap:.0%} of the first"
            f" {found.depth} hits of the semantic leg are the same, {found.overlap:.0%} of those of whole searches"
        )
    else:
        lines.append("compared on no query: the tenant has too few entries, or neither model finds any")
    for name, quality in (("searches", found.quality), ("the semantic leg", found.semantic_quality)):
        if quality is not None:
            lines.append(
                f"{found.judgements} judgements on {found.judged} queries: nDCG@10 of {name} {_compare(quality)}"
            )
    return lines


def _compare(quality: Quality) -> str:
    return (
        f"{quality.old:.3f} with the old model, {quality.new:.3f} with the new one (95 % interval of the difference:"
        f" {quality.low:+.3f} to {quality.high:+.3f})"
    )


VISIT = 500
"""Entries to mark as pending in one statement."""
DROP = 1_000

ENDING = "the vectors of the former change are still being removed; try again in a moment"


@dataclass(eq=False)
class ChangeMachine:
    """Moves tenants between states, each time in one transaction; `served` are the models with a provider here."""

    database: Database
    tenants: TenantDirectory
    jobs: JobQueue
    served: Collection[int]
    _: KW_ONLY
    exact_limit: int

    async def read(self, tenant_id: UUID) -> ChangeRow | None:
        """Read the tenant's change, if there is one."""
        async with self.database.tenant_session(tenant_id) as session:
            return await db.fetch_change(session)

    async def begin(self, tenant_id: UUID, wanted: NewModelChange, *, rebuild: bool = False, actor: str) -> ChangeRow:
        """none → filling. If a change to the same model is in progress, apply the given terms and keep its state.

        `rebuild`: to the model in use, whatever model `wanted` names. Raises InvalidInput for a model that is not
        registered or not served here, and Conflict while another change is in progress.
        """
        async with self.database.tenant_session(tenant_id) as session:
            models = await list_models(session)
            in_use = await db.lock_tenant(session)
            if in_use is None:
                raise TenantNotFound("the tenant does not exist")
            target = choose_model(models, None if rebuild else wanted, self.served, in_use)
            change = await db.fetch_change(session)
            if change is not None and change.rebuilds and change.state == "switched":
                await db.end_rebuild(session)
                change = None
            if change is None:
                rate = None if isinstance(wanted.rate, Unset) else wanted.rate
                least = wanted.switch_at_overlap
                await db.start_change(
                    session,
                    in_use,
                    target.id,
                    rate=rate,
                    switch_at_overlap=DEFAULT_OVERLAP if isinstance(least, Unset) else least,
                )
                await _note(session, actor, "model.reembed", target.model)
            elif change.state == "dropping":
                raise ModelChangeConflict(ENDING)
            elif change.rebuilds and target.id != in_use:
                raise ModelChangeConflict(
                    "the vectors of the model in use are being rebuilt; wait, or end that rebuild first"
                )
            elif change.to_model != target.id:
                raise ModelChangeConflict("the tenant is moving to another model; end that change first")
            elif rebuild and not change.rebuilds:
                raise ModelChangeConflict(
                    "the vectors of the former model are still kept; end that change before a rebuild"
                )
            else:
                least = wanted.switch_at_overlap
                await db.adjust_change(
                    session,
                    rate=change.rate if isinstance(wanted.rate, Unset) else wanted.rate,
                    switch_at_overlap=change.switch_at_overlap if isinstance(least, Unset) else least,
                )
                await _note(session, actor, "model.pace", target.model)
            await self.jobs.enqueue(session, "reembed", "model")
            change = require_change(await db.fetch_change(session))
        self.jobs.wake()
        return change

    async def visit(self, tenant_id: UUID, change: ChangeRow) -> ChangeRow:
        """filling: mark the next entries as pending for the new model; return the updated change."""
        async with self.database.tenant_session(tenant_id) as session:
            await db.visit_entries(session, change.other, VISIT)
            return await db.fetch_change(session) or change

    async def finish(self, tenant_id: UUID) -> None:
        """filling → switched, for a rebuild: every entry has been visited."""
        async with self.database.tenant_session(tenant_id) as session:
            await db.finish_rebuild(session)

    async def note_failure(self, tenant_id: UUID, failure: str | None) -> None:
        """Any state: record why the job waits, or that it advances again."""
        async with self.database.tenant_session(tenant_id) as session:
            await db.note_failure(session, failure)

    async def complete(self, tenant_id: UUID, change: ChangeRow, comparison: Comparison) -> None:
        """filling → ready: store the comparison; from now on the tenant can be switched."""
        async with self.database.tenant_session(tenant_id) as session:
            await db.declare_ready(session, change.to_model, comparison)

    async def switch(self, tenant_id: UUID, *, back: bool = False, actor: str) -> ChangeRow | None:
        """ready → switched, or `back`; None while there are entries still to be embedded for that model.

        The tenant's lock keeps entries from being written between this check and the switch, so searches miss none.
        Raises ModelChangeNotFound, and Conflict while the model cannot be used.
        """
        async with self.database.tenant_session(tenant_id) as session:
            await db.lock_tenant(session)
            change = require_change(await db.fetch_change(session))
            target = change.from_model if back else change.to_model
            if change.state == "dropping":
                raise ModelChangeConflict(ENDING)
            if change.rebuilds:
                raise ModelChangeConflict("the model stays the same in a rebuild; there is nothing to switch")
            if change.state == "filling":
                raise ModelChangeConflict("the new model's vectors are not complete yet")
            if target == change.current:
                return change
            if target not in self.served:
                raise ModelChangeConflict("this service has no provider for that model; set EMBEDDING_NEXT_PROVIDER")
            searchable = not self.lacks_index(change)
            if searchable:
                if await db.count_lagging(session, target):
                    return None
                await db.use_model(session, target)
                await _note(session, actor, "model.switch", change.model(target))
                change = require_change(await db.fetch_change(session))
            else:
                await self.jobs.enqueue(session, "reembed", "model")
        if not searchable:
            raise ModelChangeConflict("the index of that model's vectors is not complete yet; it is being built")
        self.tenants.forget(tenant_id)
        return change

    async def end(self, tenant_id: UUID, *, actor: str) -> ChangeRow:
        """filling, ready or switched → dropping: from now on entries are embedded only for the model in use.

        A rebuild ends at once: there are no other vectors. Raises ModelChangeNotFound.
        """
        async with self.database.tenant_session(tenant_id) as session:
            await db.lock_tenant(session)
            change = require_change(await db.fetch_change(session))
            if change.state != "dropping":
                await _note(session, actor, "model.drop", change.model(change.other))
            if change.rebuilds:
                await db.end_rebuild(session)
                return change
            await db.begin_drop(session)
            await self.jobs.enqueue(session, "reembed", "model")
        self.jobs.wake()
        return replace(change, state="dropping")

    async def drop(self, tenant_id: UUID, change: ChangeRow) -> bool:
        """dropping → none, once no vectors are left to remove; return whether the change has ended."""
        async with self.database.tenant_session(tenant_id) as session:
            if await db.drop_vectors(session, change.other, DROP):
                return False
            await db.finish_change(session, change.other)
        return True

    def lacks_index(self, change: ChangeRow) -> bool:
        """Whether the other model has too many vectors for an exact search, and its index is not ready."""
        return change.vectors.passages > self.exact_limit and change.vectors.index_state != "ready"

    async def other_context(self, tenant_id: UUID, change: ChangeRow) -> TenantContext:
        """The tenant's context with the model of the change that is not in use."""
        self.tenants.forget(tenant_id)
        model = change.model(change.other)
        return replace(
            await self.tenants.context(tenant_id),
            model=model,
            space=VectorSpace(change.other, model.dimensions),
            passages=change.vectors.passages,
            indexed=change.vectors.index_state == "ready",
            searches=0,
        )


def require_change(change: ChangeRow | None) -> ChangeRow:
    """Return the change. Raises ModelChangeNotFound when there is none."""
    if change is None:
        raise ModelChangeNotFound("no model change is in progress")
    return change


async def _note(session: TenantSession, actor: str, action: AuditAction, model: EmbeddingModel) -> None:
    detail = {"provider": model.provider, "model": model.name, "dimensions": model.dimensions}
    await audit.write_audit(session, actor, action, [], detail)


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
