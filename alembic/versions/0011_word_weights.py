"""Entries store the weights of their words, and `keyword.search` scores them by an inner product.

The column is computed for all entries: the tables are rewritten, with an exclusive lock on `entries`.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    load_function("lexemes", "word_place")
    load_function("lexemes", "lexeme_weights")
    load_function("lexemes", "entry_weights")
    execute_script("""
        alter table entries add column if not exists word_weights sparsevec storage main
          generated always as (entry_weights(language, title, content)) stored;
        comment on column entries.word_weights is
          'The words for BM25, scored by an inner product; stored in the row, since searches read it from many entries';
        drop function if exists keyword.search(
          text[], text[], integer[], bigint, double precision, entry_filter, integer, integer, integer,
          double precision[], text[], text[]);
    """)
    for file, function in (
        ("keyword_lookups", "word_query"),
        ("keyword_lookups", "combined_query"),
        ("keyword_lookups", "sum_words"),
        ("keyword_search", "search"),
    ):
        load_function(file, f"keyword.{function}")


def downgrade() -> None:
    # word_weights stays: functions of later versions depend on the order of the columns of entries, and on it.
    pass
