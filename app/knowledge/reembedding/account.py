"""What a model change shows, in sentences for people and agents."""

from __future__ import annotations

from app.db.queries.work.reembedding import Comparison, Quality
from app.knowledge.reembedding.change import ModelChange

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
        lines.append(
            "this service has no provider for the model that is not in use: set EMBEDDING_NEXT_PROVIDER"
        )
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
