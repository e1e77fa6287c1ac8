"""Choose the model of a model change, and describe the change's state."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.contract.models import Comparison, ModelChange, NewModelChange, Quality
from app.contract.validation import UNSET
from app.db.queries.reembedding import ChangeRow
from app.db.queries.tenants import RegisteredModel
from app.embeddings.provider import ALIASES
from app.errors import InvalidInput
from app.knowledge.reembedding.comparison import decide


def choose_model(
    models: Sequence[RegisteredModel], wanted: NewModelChange, served: Collection[int], in_use: int
) -> RegisteredModel:
    """Find the only registered model that matches; without any description, the one that is not in use.

    Raises InvalidInput.
    """
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


def choose_in_use(models: Sequence[RegisteredModel], served: Collection[int], in_use: int) -> RegisteredModel:
    """The model in use. Raises InvalidInput without a provider for it."""
    if in_use not in served:
        raise InvalidInput.of("model", "this service has no provider for the tenant's model")
    return next(model for model in models if model.id == in_use)


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
        state=change.state,
        old=change.old.info,
        new=change.new.info,
        rebuild=change.rebuilds,
        rate=change.rate,
        switch_at_overlap=change.switch_at_overlap,
        entries=entries,
        waiting=waiting,
        refused=refused,
        progress=round(max(0.0, min(1.0, share)), 4),
        served=change.other in served,
        failure=change.failure,
        comparison=change.comparison,
        decision=decide(change),
        started_at=change.started_at,
        ready_at=change.ready_at,
        switched_at=change.switched_at,
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
