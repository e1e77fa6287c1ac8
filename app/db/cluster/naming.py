"""Write the names of a shard's tables into SQL text.

On the node that holds a tenant, a statement names the shards themselves, e.g. `entries_102008` for `entries`. Postgres
then plans it like a statement on plain tables: Citus would plan it again in each execution, and refuses some of the
statements.

A marked text has `@{entries}` in the place of each table that has shards, and of each function that reads such tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

SHARD_FUNCTIONS = (
    "was_current",
    "repeats_another",
    "entry_matches",
    "pending_entries",
    "keyword.filtered_ids",
    "keyword.matching_entries",
    "keyword.former_ids",
    "keyword.former_words",
    "keyword.search",
    "keyword.matched_queries",
    "keyword.tag_overlaps",
    "keyword.derived_entries",
    "entries_at",
    "embeddings_at",
    "pending_versions",
    "queue.claim_job",
    "queue.count_jobs",
    "tenancy.create_vector_index",
    "tenancy.drop_vector_index",
)
"""The functions that read tables with shards, each after the functions that it calls. Every group of shards has copies
of them, whose names end with the number of the group."""

_TAKES_ENTRY = ("entry_passes", "entry_matches", "entry_fulfils")
"""Functions with an argument of the row type of `entries`, which a row of a shard does not have; `former_entry` has one
of `former_entries`."""

_OF_NODES = {"queue.claim_job": "shards.claim_job", "queue.count_jobs": "shards.count_jobs"}

_AFTER_TABLE = (
    *(
        "as",
        "where",
        "set",
        "on",
        "order",
        "select",
        "values",
        "limit",
        "group",
        "using",
        "left",
        "join",
        "cross",
    ),
    *("inner", "right", "full", "union", "for", "returning", "default", "offset", "having", "except", "loop"),
)
"""Words that can follow a table without being its alias."""

_MARK = re.compile(r"@\{([\w.]+)\}")


def mark(text: str, tables: Iterable[str], *, casts: bool = True) -> str:
    """Mark the tables and functions of an SQL text; with `casts`, rows are given as rows of the table `entries`.

    A table without an alias keeps its name as one, so that its columns can be qualified.
    """
    table = "|".join(sorted(tables, key=len, reverse=True))
    found = re.compile(
        rf"\b(?P<verb>from|join|into|update|using)(?P<space>\s+)(?:public\.)?(?P<table>{table})\b(?![.(])"
        rf"(?P<alias>\s+(?!(?:{'|'.join(_AFTER_TABLE)})\b)[a-z_]+)?",
        re.IGNORECASE,
    )

    def name(match: re.Match[str]) -> str:
        alias = match["alias"] or f" as {match['table']}"
        if re.match(r"\s+as\b", text[match.end() :]):
            alias = ""
        return f"{match['verb']}{match['space']}public.@{{{match['table']}}}{alias}"

    text = found.sub(name, text)
    text = re.sub(rf"'(?:public\.)?({table})'::regclass", r"'public.@{\1}'::regclass", text)
    if casts:
        text = re.sub(rf"\b({'|'.join(_TAKES_ENTRY)})\((\w+), ", r"\1(row(\2.*)::public.entries, ", text)
        text = re.sub(r"\bformer_entry\((\w+)\)", r"former_entry(row(\1.*)::public.former_entries)", text)
    functions = "|".join(re.escape(function) for function in SHARD_FUNCTIONS)
    return re.sub(
        rf"(?<![\w.])(?:public\.)?({functions})\(",
        lambda match: f"{'' if '.' in match[1] else 'public.'}@{{{match[1]}}}(",
        text,
    )


def fill(marked: str, names: Mapping[str, str]) -> str:
    """The text with a name in the place of each mark. Raises KeyError for a mark without a name."""
    return _MARK.sub(lambda match: names[match[1]], marked)


def write_for_node(sql: str) -> str:
    """The text of a statement that concerns all tenants of a node."""
    for plain, of_node in _OF_NODES.items():
        sql = sql.replace(f"{plain}(", f"{of_node}(")
    return sql


@lru_cache(maxsize=4096)
def mark_statement(sql: str, tables: frozenset[str]) -> str:
    """As `mark`, remembered."""
    return mark(sql, tables)
