"""Frequencies of words that are frequent in entries with readers, for the principals that may read many of them.

Searches counted each word in all entries that the caller may read, up to a bound: they took longer, and could not tell
a frequent word from a very frequent one. A downgrade removes these frequencies.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, is_citus, update_each_tenant

revision = "0032"
down_revision = "0031"

KEY = """
alter table lexeme_statistics add column if not exists principal text collate "C" not null default 'everyone';
alter table lexeme_statistics drop constraint lexeme_statistics_pkey;
alter table lexeme_statistics add primary key (tenant_id, lexeme, principal);
comment on table lexeme_statistics is
  'Document frequency of frequent lexemes, for principals as in corpus_statistics; a search counts the others'
"""
OWN = "principal = any ((select current_principals())::text[]) or '*' = any ((select current_principals())::text[])"
POLICY = f"""
drop policy if exists readers on lexeme_statistics;
create policy readers on lexeme_statistics as restrictive to kb_reader, current_user using ({OWN}) with check ({OWN})
"""
FORMER_KEY = """
alter table lexeme_statistics drop constraint lexeme_statistics_pkey;
alter table lexeme_statistics add primary key (tenant_id, lexeme)
"""


def upgrade() -> None:
    execute_script(KEY)
    if not is_citus():
        execute_script(POLICY)


def downgrade() -> None:
    """Leave the column, whose default the version before writes."""
    if not is_citus():
        update_each_tenant("delete from lexeme_statistics where principal <> 'everyone'")
        execute_script("drop policy readers on lexeme_statistics")
    execute_script(FORMER_KEY)
