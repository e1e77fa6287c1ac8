"""The requests that floods send."""

import itertools
import random
import time
from collections.abc import Iterator, Sequence

import orjson

from app.evaluation.collection import Document
from benchmarks.texts import make_queries, vary_text

LONGEST_QUERY = 9_999
AT_ONCE = 32
"""Searches in one batch, the maximum that the service accepts."""

REPEATED = ("quay", "zinc")
"""The words of which the entries for the kind `repeated` consist."""

HEADINGS = 1_500_000
"""In one file of 6 MB."""

Asked = tuple[str, bytes]
"""A path and the body to post to it; without a body, the path is read with GET."""


def send_searches(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    for query in make_queries(texts, seed):
        yield "/knowledge/search", orjson.dumps({"query": query})


def send_writes(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    generator = random.Random(seed)
    for number in itertools.count():
        text = vary_text(generator.choice(texts), generator.choice(texts), generator)
        yield "/knowledge/entries", orjson.dumps({"content": f"{seed} {time.time_ns()} {number} {text}"})


def send_long_searches(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    generator = random.Random(seed)
    while True:
        words = f"{generator.random()} " + " ".join(t.text for t in generator.choices(texts, k=20))
        yield "/knowledge/search", orjson.dumps({"query": words[:LONGEST_QUERY]})


def send_batches(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    queries = make_queries(texts, seed)
    while True:
        searches = [{"query": q, "mode": "keyword", "limit": 50} for q in itertools.islice(queries, AT_ONCE)]
        yield "/knowledge/search/batch", orjson.dumps({"searches": searches})


def send_lists(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    return itertools.repeat(("/knowledge/entries?limit=200", b""))


def send_trails(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    return itertools.repeat(("/admin/audit?limit=200", b""))


def send_refused(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    """Bodies that are refused: as many lists as fit into the largest, or into one just below a search's bounds."""
    lists = ",".join(["[]"] * 1_990)
    small = b'{"query": "x", "limit": 0, "metadata": {"a": [%b]}}' % lists.encode()
    large = b'{"query": "x", "metadata": {"a": [%b]}}' % b",".join([b"[]"] * 80_000)
    return itertools.cycle([("/knowledge/search", small), ("/knowledge/search", large)])


def send_giants(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    searches = [{"query": "giant", "mode": "keyword", "limit": 50}] * AT_ONCE
    return itertools.repeat(("/knowledge/search/batch", orjson.dumps({"searches": searches})))


def send_repeated(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    """Searches that find long entries which consist of the query's words; each query is another one."""
    for number in itertools.count():
        query = {"query": f"{' '.join(REPEATED)} {seed % 1000}x{number}", "mode": "keyword", "limit": 10}
        yield "/knowledge/search", orjson.dumps(query)


def send_headings(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    for number in itertools.count():
        yield ("/knowledge/assets", f"# {seed} {time.time_ns()} {number}\n".encode() + b"# a\n" * HEADINGS)


def send_large(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    """Bodies of nearly the maximum length that are refused, in turn to the two paths that accept the most."""
    filler = b"x" * (31 * 1024 * 1024)
    return itertools.cycle(
        [
            ("/knowledge/entries/bulk", b'{"entries": [], "unknown": "%b"}' % filler),
            ("/mcp", b'{"jsonrpc": "2.0", "id": 1, "method": "unknown", "params": {"a": "%b"}}' % filler),
        ]
    )


def send_documents(texts: Sequence[Document], seed: int) -> Iterator[Asked]:
    return itertools.repeat(("/openapi.json", b""))


KINDS = {
    "search": send_searches,
    "long": send_long_searches,
    "batch": send_batches,
    "write": send_writes,
    "list": send_lists,
    "audit": send_trails,
    "refused": send_refused,
    "large": send_large,
    "giant": send_giants,
    "unread": send_giants,
    "repeated": send_repeated,
    "headings": send_headings,
    "openapi": send_documents,
    "idle": send_documents,
}
"""What a flood can send: short searches, searches of the maximum length, batches with long result lists, entries,
pages of lists, pages of the audit trail, small bodies that are refused, large ones, batches with the longest
entries, the same without reading the answers, searches that find entries of nothing but the query's words,
Markdown with many headings, requests for the API's description, and connections without a request.
"""

CLOSED = {"unread": "closed", "idle": "503"}
"""What the service must do to some connections of these kinds."""
