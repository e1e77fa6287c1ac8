"""When a tenant moves to a new model without its admin: the evidence that is needed, and what it must show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.db.queries.work.reembedding import ChangeRow, Comparison, Quality

MIN_JUDGEMENTS = 20
"""Judged entries from which on feedback decides; they must belong to at least `MIN_JUDGED_QUERIES` queries."""

MIN_JUDGED_QUERIES = 10
"""Fewer queries are too few to resample: a percentile interval of them is too narrow (Efron and Tibshirani, 1993)."""

LOSS = 0.05
"""Largest loss of nDCG, as a fraction of the old model's, that the interval may include. Smaller differences than 5 %
are not noticeable, according to Spärck Jones (1974)."""

MIN_QUERIES = 20
"""Queries that must be compared before the overlap decides: the standard error of their mean is at most 0.06."""

DEFAULT_OVERLAP = 0.8
"""Least overlap of the semantic leg by default."""

Switching = Literal["undecided", "automatic", "by_hand"]
Basis = Literal[
    "feedback", "semantic_overlap", "too_little_evidence", "refused_entries", "request", "same_model"
]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the service switches the tenant itself, and why.

    Attributes:
        switch: `undecided` until the models have been compared.
        basis: what decided; None while undecided.
        reason: the same in a sentence, with the figures.
    """

    switch: Switching
    basis: Basis | None
    reason: str


def decide(change: ChangeRow) -> Decision:
    """Decide from what is stored; the admin can switch in any case once the vectors are complete."""
    if change.rebuilds:
        return Decision(
            "automatic",
            "same_model",
            "the model stays the same: the new vectors of each entry are used at once, and nothing is compared",
        )
    if change.switch_at_overlap is None:
        return Decision("by_hand", "request", "the change was started for a switch by hand")
    if (found := change.comparison) is None:
        return Decision("undecided", None, "the models are compared once every entry has its new vectors")
    if change.refused and change.state == "ready":
        return Decision(
            "by_hand", "refused_entries", f"the new model's provider refuses {change.refused} entries"
        )
    if _is_judged(found):
        return _judge(found)
    return _weigh_overlap(found, change.switch_at_overlap)


def _is_judged(found: Comparison) -> bool:
    return found.judgements >= MIN_JUDGEMENTS and found.judged >= MIN_JUDGED_QUERIES


def _judge(found: Comparison) -> Decision:
    """By feedback, for searches with the tenant's settings and for the semantic leg alone."""
    for leg, quality in (("", found.quality), (" of the semantic leg", found.semantic_quality)):
        assert quality is not None
        allowed = -LOSS * quality.old
        figures = (
            f"nDCG@10{leg} on {found.judged} judged queries: {quality.old:.3f} with the old model, {quality.new:.3f}"
            f" with the new one, a difference of {quality.low:+.3f} to {quality.high:+.3f}"
        )
        if quality.low < allowed:
            return Decision("by_hand", "feedback", f"{figures}; a loss above {-allowed:.3f} is not excluded")
    return Decision("automatic", "feedback", f"{figures}; a loss above {-allowed:.3f} is excluded")


def _weigh_overlap(found: Comparison, least: float) -> Decision:
    if found.queries < MIN_QUERIES or found.semantic_overlap is None:
        return Decision(
            "by_hand",
            "too_little_evidence",
            f"only {found.queries} queries could be compared, and {found.judgements} judgements are on {found.judged}"
            f" queries; {MIN_QUERIES} queries are needed, or {MIN_JUDGEMENTS} judgements on {MIN_JUDGED_QUERIES}"
            " queries",
        )
    overlap = (
        f"the semantic leg shares {found.semantic_overlap:.0%} of the first {found.depth} hits of {found.queries}"
        f" queries; {least:.0%} are needed"
    )
    if found.semantic_overlap < least:
        return Decision("by_hand", "semantic_overlap", overlap)
    for quality in (found.quality, found.semantic_quality):
        if quality is not None and _falls(quality):
            return Decision(
                "by_hand",
                "feedback",
                f"{overlap}, but nDCG@10 on {found.judged} judged queries falls from {quality.old:.3f} to"
                f" {quality.new:.3f}",
            )
    return Decision("automatic", "semantic_overlap", overlap)


def _falls(quality: Quality) -> bool:
    """Little feedback cannot cause a switch, but it can prevent one."""
    return quality.new < quality.old * (1 - LOSS)
