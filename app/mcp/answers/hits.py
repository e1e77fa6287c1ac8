"""Results of the search tools: structured output, and the same as text for a model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any
from uuid import UUID

from app.contract.results import Hit, SearchResult
from app.contract.tools import Budget, Note, SearchAnswer, ShownHit, ShownMetadata
from app.embeddings.provider import estimate_tokens
from app.knowledge.presentation import describe_degradation
from app.mcp.answers.entries import list_facts, mark_of, show_fields, texts_of, write_lines
from app.mcp.answers.passages import READABLE_LENGTH, Marker, Passage, ToolAnswer, cut_passage, cut_to_tokens, to_json

COMPARED = 20
"""Best hits that are compared with each other: 190 pairs."""

READ = 1_000
"""Characters of each content that are compared."""

ALIKE = 0.6
"""Share of common words from which two texts count as alike: they differ in a number or a few words."""

FEWEST = 4
"""Words that a text must have: shorter ones are alike by chance."""

MOST = 5
"""Notes of an answer."""

_WORD = re.compile(r"\w+")


def compare_hits(hits: Sequence[Hit]) -> list[Note]:
    """Note superseded hits, and those whose texts are alike but not equal, the best first, at most `MOST`."""
    numbers = {hit.id: number for number, hit in enumerate(hits, 1)}
    notes = [_note_successor(hit, numbers) for hit in hits if hit.superseded_by_id is not None]
    compared = [(hit, frozenset(_WORD.findall(hit.content[:READ].casefold()))) for hit in hits[:COMPARED]]
    for (one, its), (other, theirs) in combinations(compared, 2):
        if len(notes) >= MOST:
            break
        if other.id == one.superseded_by_id or one.id == other.superseded_by_id:
            continue
        share = len(its & theirs) / len(its | theirs) if its else 0.0
        if min(len(its), len(theirs)) >= FEWEST and its != theirs and share >= ALIKE:
            notes.append(_note_difference(one, other, numbers))
    return notes[:MOST]


def _note_successor(hit: Hit, numbers: dict[UUID, int]) -> Note:
    successor = hit.superseded_by_id
    assert successor is not None
    place = f"hit {numbers[successor]}" if successor in numbers else f"entry {successor}"
    return Note("superseded", [hit.id, successor], f"Hit {numbers[hit.id]} is superseded by {place}.")


def _note_difference(one: Hit, other: Hit, numbers: dict[UUID, int]) -> Note:
    a, b = numbers[one.id], numbers[other.id]
    said = []
    if one.is_verified != other.is_verified:
        verified, other_one = (a, b) if one.is_verified else (b, a)
        said.append(f"hit {verified} is verified, hit {other_one} is not")
    if one.confidence != other.confidence:
        said.append(f"hit {a} has the confidence {one.confidence:g}, hit {b} {other.confidence:g}")
    if one.updated_at != other.updated_at:
        newer, older = (a, b) if one.updated_at > other.updated_at else (b, a)
        said.append(f"hit {newer} was changed later than hit {older}")
    facts = f": {', '.join(said)}" if said else ""
    text = f"Hits {a} and {b} have texts that are alike and differ{facts}. Compare them before you rely on one."
    return Note("differing", [one.id, other.id], text)


ESTIMATE = "a third of the letters, each digit and mark, each byte beyond ASCII"
"""How `estimate_tokens` counts: about 1.5 times the count of tokenizers for English prose."""

NO_TEXT = estimate_tokens("")
"""Tokens of an empty text, which each estimate includes once."""

LEAST_CONTENT = 12
"""Minimum tokens of content for which a cut hit is still included; the first hit is always included."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit and the part of its content in the text; `brief` omits all but its id."""

    hit: Hit
    passage: Passage
    brief: bool = False


def answer_search(result: SearchResult, token_budget: int | None = None) -> ToolAnswer:
    """Build the result of a search; with a budget, only with the best hits whose text fits into it."""
    marker = Marker([*_texts(result), *result.metadata.suggestions])
    if token_budget is None:
        shown = [Shown(h, cut_passage(h.content, (h.snippet_start, h.snippet_end), READABLE_LENGTH)) for h in result]
        notes = compare_hits(result.results)
        return ToolAnswer(
            _add_notes(_write(result, shown, marker, ""), notes), _show(result, shown, notes, budget=None)
        )
    shown = _fit(result, marker, token_budget)
    left_out = [hit.id for hit in result.results[len(shown) :]]
    note = _budget_note(token_budget, len(left_out), cut=bool(shown and shown[-1].passage.cut))
    notes = compare_hits([s.hit for s in shown])
    text = _add_notes(_write(result, shown, marker, note), notes, token_budget)
    text = _add_ids(text, left_out, token_budget)
    budget = Budget(token_budget, estimate_tokens(text), ESTIMATE, len(left_out), left_out)
    return ToolAnswer(text, _show(result, shown, notes, budget=budget))


def _show(
    result: SearchResult, shown: Sequence[Shown], notes: Sequence[Note], *, budget: Budget | None
) -> dict[str, Any]:
    """The structured output: of each hit what a model can use, and the part of its content that the text has."""
    hits = [
        ShownHit(**show_fields(s.hit, s.passage), **{name: getattr(s.hit, name) for name in _OF_HITS}) for s in shown
    ]
    metadata = ShownMetadata(**{field.name: getattr(result.metadata, field.name) for field in fields(ShownMetadata)})
    explained: Any = result.debug_info
    return to_json(SearchAnswer(hits, metadata, explained, notes, budget, result.facets))


_OF_HITS = ("score", "similarity", "duplicates", "group", "validity")


def _fit(result: SearchResult, marker: Marker, budget: int) -> list[Shown]:
    """Select the best hits that fit. The first that does not fit is cut if enough of it remains, and is the last.

    The first hit is always selected.
    """
    longest_note = _budget_note(budget, len(result), cut=True)
    left = budget - estimate_tokens(_write(result, [], marker, longest_note, count=len(result)))
    shown: list[Shown] = []
    for number, hit in enumerate(result, 1):
        fitted = _fit_hit(number, hit, marker, left, 1 if number == 1 else LEAST_CONTENT)
        if fitted is None:
            break
        shown.append(fitted)
        left -= _cost_block(number, fitted, marker)
        if fitted.passage.cut:
            break
    return shown


def _fit_hit(number: int, hit: Hit, marker: Marker, left: int, least: int) -> Shown | None:
    """The hit in at most `left` tokens, cut if necessary; None if less than `least` tokens of content remain."""
    for brief in (False, True):
        room = left - _cost_block(number, Shown(hit, Passage("", cut=True), brief), marker)
        if _cost(hit.content) <= room:
            return Shown(hit, Passage(hit.content, cut=False), brief)
        # The facts about a cut hit must not cost more than its content.
        if room >= LEAST_CONTENT or (brief and (room >= least or number == 1)):
            focus = (hit.snippet_start, hit.snippet_end)
            return Shown(hit, cut_to_tokens(hit.content, focus, max(room, 1) + NO_TEXT), brief)
    return None


def _cost_block(number: int, shown: Shown, marker: Marker) -> int:
    return _cost(f"\n\n{_write_hit(number, shown, marker)}")


def _cost(text: str) -> int:
    """Tokens that the text adds to a longer one."""
    return estimate_tokens(text) - NO_TEXT


def _add_notes(text: str, notes: Sequence[Note], budget: int | None = None) -> str:
    """Add the notes about the hits, with a budget as far as they fit."""
    for note in notes:
        longer = f"{text}\n\nNote: {note.text}"
        if budget is not None and estimate_tokens(longer) > budget:
            break
        text = longer
    return text


def _add_ids(text: str, left_out: Sequence[UUID], budget: int) -> str:
    """Add the ids of the omitted hits, as far as they fit."""
    room = budget - estimate_tokens(text)
    ids: list[str] = []
    for entry_id in left_out:
        longer = f"\n\nOmitted: {' '.join([*ids, str(entry_id)])}"
        if _cost(longer) > room:
            break
        ids.append(str(entry_id))
    return f"{text}\n\nOmitted: {' '.join(ids)}" if ids else text


def _write(result: SearchResult, shown: Sequence[Shown], marker: Marker, note: str, *, count: int | None = None) -> str:
    metadata = result.metadata
    count = len(shown) if count is None else count
    lines = [
        f"{count} of {metadata.total} candidates, best first." if result.results else "Nothing was found.",
        "There is a strong match."
        if metadata.strong_match
        else f"There is no strong match{'' if note else ': the knowledge base may not have the answer'}.",
    ]
    if metadata.relaxations:
        lines.append(metadata.filter_note)
    lines += describe_degradation(metadata.degraded, metadata.pending)
    lines.append(note)
    if result.results or metadata.suggestions:
        lines.append(marker.notice)
    if result.debug_info is not None:
        lines.append("debug_info of the structured output explains the rank of each hit.")
    if metadata.suggestions:
        lines.append(f"Words to try instead:\n{marker.enclose(', '.join(metadata.suggestions))}")
    blocks = [_write_hit(number, s, marker) for number, s in enumerate(shown, 1)]
    return "\n\n".join([" ".join(line for line in lines if line), *blocks])


def _write_hit(number: int, shown: Shown, marker: Marker) -> str:
    hit = shown.hit
    scores = [f"score {hit.score:.4f}"]
    if hit.similarity is not None:
        scores.append(f"similarity {hit.similarity:.2f}")
    folded = [f"{hit.duplicates} more differ only in numbers and dates"] if hit.duplicates else []
    facts = [*([] if shown.brief else [*scores, *list_facts(hit)]), *folded, f"id {hit.id}", *mark_of(hit)]
    lines = [] if shown.brief else write_lines(hit)
    if hit.origin is not None and not shown.brief:
        lines.insert(1, f"from: {hit.origin.text}")
    cut = " (cut)" if shown.passage.cut else ""
    return f"{number}. {', '.join(facts)}{cut}\n" + marker.enclose("\n".join([*lines, shown.passage.text]))


def _budget_note(budget: int, left_out: int, *, cut: bool) -> str:
    if not left_out and not cut:
        return f"All fit into {budget} tokens."
    said = [f"{left_out} further hits are omitted"] if left_out else []
    if cut:
        said.append("the last one is cut")
    note = ", ".join(said)
    return f"{note[0].upper()}{note[1:]}: increase token_budget."


def _texts(result: SearchResult) -> list[str]:
    origins = [hit.origin.text for hit in result if hit.origin is not None]
    return [*origins, *(text for hit in result for text in texts_of(hit))]
