"""Read collections of questions with judged answers, from folders and from LoCoMo's file."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from app.errors import KnowledgeError

QRELS_PLACES = ("qrels.tsv", "qrels/test.tsv")
"""Default files of judgements; the second is BEIR's."""


class UnreadableCollection(KnowledgeError):
    """The folder is not a valid collection; the message names the file, the line and the problem."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of the collection."""

    id: str
    title: str | None
    text: str

    @property
    def whole(self) -> str:
        """Title and text together."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """One query.

    Attributes:
        judgements: grades by document id, above 0 for relevant documents.
        group: queries with the same name are also reported on their own.
    """

    id: str
    text: str
    judgements: Mapping[str, float]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents and the judged queries over them.

    Attributes:
        qrels: name of the file with the judgements.
        skipped: number of documents that were omitted because their text is empty.
        judged: number of queries with a positive judgement, before sampling.
        parts: collections that are searched one by one, each in its own tenant, and reported as one. Then `documents`
            and `queries` are all of theirs in this order.
        ignored: queries that are not measured, counted by reason.
    """

    name: str
    qrels: str
    documents: Sequence[Document]
    queries: Sequence[Query]
    skipped: int
    judged: int
    parts: Sequence[Collection] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)

    @property
    def tenants(self) -> Sequence[Collection]:
        """What is searched on its own: the parts, or the collection itself."""
        return self.parts or (self,)

    def sample(self, queries: int | None, seed: int = 0) -> Collection:
        """Reduce the collection to a random sample of at most `queries` queries, with a fixed seed."""
        if queries is None or queries >= len(self.queries):
            return self
        chosen = sorted(random.Random(seed).sample(range(len(self.queries)), queries))  # noqa: S311  # not a secret
        if not self.parts:
            return replace(self, queries=[self.queries[i] for i in chosen])
        parts, start = [], 0
        for part in self.parts:
            own = [part.queries[i - start] for i in chosen if start <= i < start + len(part.queries)]
            start += len(part.queries)
            if own:
                parts.append(replace(part, queries=own))
        return join_collections(self.name, parts, judged=self.judged, ignored=self.ignored)


def join_collections(
    name: str, parts: Sequence[Collection], *, judged: int | None = None, ignored: Mapping[str, int] | None = None
) -> Collection:
    """A collection with these parts."""
    return Collection(
        name,
        parts[0].qrels,
        [document for part in parts for document in part.documents],
        [query for part in parts for query in part.queries],
        skipped=sum(part.skipped for part in parts),
        judged=sum(part.judged for part in parts) if judged is None else judged,
        parts=parts,
        ignored=ignored or {},
    )


def read_collection(folder: Path, qrels: Path | None = None) -> Collection:
    """Read a collection; `qrels` is relative to the folder, else to the working directory. Queries without a positive
    judgement are omitted. Raises UnreadableCollection."""
    if not folder.is_dir():
        raise UnreadableCollection(f"{folder}: there is no such folder")
    judgements_file = _find_qrels(folder, qrels)
    documents: list[Document] = []
    skipped = 0
    for place, record in _read_records(folder / "corpus.jsonl"):
        document = Document(
            _text(record, "_id", place), _text(record, "title", place, "").strip() or None,
            _text(record, "text", place, "")
        )  # fmt: skip
        if document.text.strip():
            documents.append(document)
        else:
            skipped += 1
    judgements = _read_judgements(judgements_file)
    queries = []
    for place, record in _read_records(folder / "queries.jsonl"):
        query = Query(_text(record, "_id", place), _text(record, "text", place), {})
        grades = judgements.get(query.id, {})
        if query.text.strip() and any(grade > 0 for grade in grades.values()):
            queries.append(replace(query, judgements=grades))
    for file, names in (("corpus.jsonl", [d.id for d in documents]), ("queries.jsonl", [q.id for q in queries])):
        if repeated := next((name for name, count in Counter(names).items() if count > 1), None):
            raise UnreadableCollection(f"{folder / file}: the _id {repeated} occurs twice")
    if not documents or not queries:
        missing = "document with text" if not documents else "query with a positive judgement"
        raise UnreadableCollection(f"{folder}: has no {missing}")
    return Collection(folder.resolve().name, judgements_file.name, documents, queries, skipped, judged=len(queries))


def _find_qrels(folder: Path, qrels: Path | None) -> Path:
    places = [folder / place for place in QRELS_PLACES] if qrels is None else [folder / qrels, qrels]
    for place in places:
        if place.is_file():
            return place
    raise UnreadableCollection(f"{folder}: there is no {qrels or ' or '.join(QRELS_PLACES)}")


def _read_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a JSON Lines file, each with its place for error messages."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    record = orjson.loads(line)
                    if not isinstance(record, dict):
                        raise UnreadableCollection(f"{path}: line {number} is not a JSON object")
                    yield f"{path}: line {number}", record
    except OSError as error:
        raise UnreadableCollection(f"{path}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise UnreadableCollection(f"{path}: line {number} is not JSON: {error}") from None


def _text(record: Mapping[str, Any], field: str, place: str, default: str | None = None) -> str:
    value = record.get(field, default)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise UnreadableCollection(f"{place} has no text in {field!r}")
    return value


def _read_judgements(path: Path) -> dict[str, dict[str, float]]:
    """Read grades by query and document, from BEIR's three columns or TREC's four, with or without a header."""
    judgements: dict[str, dict[str, float]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UnreadableCollection(f"{path}: is not a readable UTF-8 text file") from None
    for number, line in enumerate(lines, 1):
        cells = line.strip().split("\t") if "\t" in line else line.split()
        if not cells:
            continue
        try:
            query, document, grade = cells[0], cells[-2], float(cells[-1])
        except (IndexError, ValueError):
            if number == 1:
                continue
            raise UnreadableCollection(f"{path}: line {number} must be query, document and grade") from None
        judgements.setdefault(query, {})[document] = grade
    return judgements


FILE = "locomo10.json"
"""`data/locomo10.json` of snap-research/locomo, from Maharana et al., "Evaluating Very Long-Term Conversational Memory
of LLM Agents" (ACL 2024). It is not part of this project: its licence, CC BY-NC 4.0, excludes commercial use."""

CATEGORIES: Mapping[object, str] = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""Names of the categories, numbered as in the authors' code; section 4.1 of the paper numbers them differently."""

ADVERSARIAL = 5
"""Questions about something that the conversation does not mention; most published results omit them."""

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
    sessions = sorted((int(match[1]), key) for key in conversation if (match := _SESSION.fullmatch(key)) is not None)
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


CORPUS = "corpus.jsonl"


def read_path(path: Path, qrels: Path | None = None) -> Collection:
    """Read a folder in BEIR's layout, a folder of such folders as parts, each with its queries as a group, or the file
    of LoCoMo. Raises UnreadableCollection."""
    locomo = path if path.suffix == ".json" else path / FILE
    if locomo.is_file():
        if qrels is not None:
            raise UnreadableCollection(f"{locomo}: holds its own judgements, so leave out --qrels")
        return read_locomo(locomo)
    folders = sorted(corpus.parent for corpus in path.glob(f"*/{CORPUS}"))
    if (path / CORPUS).is_file() or not folders:
        return read_collection(path, qrels)
    parts = [read_collection(folder, qrels) for folder in folders]
    return join_collections(
        path.resolve().name,
        [replace(part, queries=[replace(q, group=part.name) for q in part.queries]) for part in parts],
    )
