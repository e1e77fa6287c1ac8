"""LoCoMo's conversations and questions, to measure how well a search finds the turns that answer a question.

Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents" (ACL 2024); `data/locomo10.json` of
snap-research/locomo. The file is not part of this project: its licence, CC BY-NC 4.0, excludes commercial use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from app.evaluation.collection import Collection, Document, Query, UnreadableCollection, join_collections

FILE = "locomo10.json"
CATEGORIES: Mapping[object, str] = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""Names of the categories, in the numbering of the authors' code; that of the paper's section 4.1 is another."""

ADVERSARIAL = 5
"""Questions about something that the conversation does not say; most published results leave them out."""

_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)")
"""A turn's id. One string of `evidence` can have several, in any separation, and `D:11:26` instead of `D11:26`."""

_NO_EVIDENCE = "no evidence"
_UNKNOWN = "evidence without a turn"


def read_locomo(path: Path) -> Collection:
    """Read the file: each conversation is a part, each turn a document, and its evidence relevant.

    Questions are grouped by category. Adversarial ones and those without a known turn as evidence are ignored and
    counted. Raises UnreadableCollection.
    """
    try:
        samples = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableCollection(f"{path}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise UnreadableCollection(f"{path}: is not JSON: {error}") from None
    if not isinstance(samples, list) or not all(isinstance(s, dict) for s in samples):
        raise UnreadableCollection(f"{path}: is not a list of conversations")
    ignored: Counter[str] = Counter()
    parts = []
    for number, sample in enumerate(samples, 1):
        name = str(sample.get("sample_id") or f"conv-{number}")
        place = f"{path}: conversation {name}"
        documents = list(_read_turns(_mapping(sample.get("conversation"), place)))
        queries = list(_read_questions(sample.get("qa"), name, {d.id for d in documents}, ignored, place))
        if queries:
            parts.append(Collection(name, path.name, documents, queries, skipped=0, judged=len(queries)))
    if not parts:
        raise UnreadableCollection(f"{path}: has no question with evidence")
    return join_collections("locomo", parts, ignored=dict(ignored))


def _read_turns(conversation: Mapping[str, Any]) -> Iterator[Document]:
    """The turns in their order. As in the authors' retrieval, a turn's text has the time of its session, the speaker
    and the caption of a shared picture.
    """
    sessions = sorted(
        (int(match[1]), key) for key in conversation if (match := _SESSION.fullmatch(key)) is not None
    )
    seen: Counter[str] = Counter()
    for number, key in sessions:
        time = str(conversation.get(f"{key}_date_time") or "").strip()
        turns = conversation[key] if isinstance(conversation[key], list) else []
        for place, turn in enumerate((t for t in turns if isinstance(t, dict)), 1):
            said = _spoken(turn, "text")
            caption = _spoken(turn, "blip_caption")
            if not said and not caption:
                continue
            (name,) = _find_turns(turn.get("dia_id"))[:1] or [f"D{number}:{place}"]
            seen[name] += 1
            yield Document(
                name if seen[name] == 1 else f"{name}/{seen[name]}",
                None,
                f"{f'({time}) ' if time else ''}{_spoken(turn, 'speaker')}: {said}"
                f"{f' [shares a picture: {caption}]' if caption else ''}",
            )


def _read_questions(
    questions: object, conversation: str, turns: set[str], ignored: Counter[str], place: str
) -> Iterator[Query]:
    if not isinstance(questions, list):
        raise UnreadableCollection(f"{place} has no list 'qa'")
    for number, item in enumerate(questions, 1):
        question = _mapping(item, f"{place}, question {number}")
        category = question.get("category")
        evidence = _find_turns(question.get("evidence"))
        relevant = [turn for turn in evidence if turn in turns]
        if category == ADVERSARIAL:
            ignored["adversarial"] += 1
        elif not relevant:
            ignored[_UNKNOWN if evidence else _NO_EVIDENCE] += 1
        else:
            yield Query(
                f"{conversation}/{number}",
                _spoken(question, "question"),
                dict.fromkeys(relevant, 1.0),
                CATEGORIES.get(category) or f"category {category}",
            )


def _find_turns(value: object) -> list[str]:
    """The ids of turns in a text or in a list of texts, without leading zeros, each once."""
    texts: Sequence[object] = value if isinstance(value, list) else [value]
    found = [f"D{int(s)}:{int(t)}" for text in texts for s, t in _TURN.findall(str(text or ""))]
    return list(dict.fromkeys(found))


def _spoken(record: Mapping[str, Any], field: str) -> str:
    value = record.get(field)
    return "" if value is None else str(value).strip()


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableCollection(f"{place} is not a JSON object")
    return value
