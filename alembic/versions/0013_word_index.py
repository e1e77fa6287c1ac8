"""Words of entries written together are indexed together; signs replaced in one pass; expired entries found fast."""

from __future__ import annotations

from app.db.schema.migration import execute_script

revision = "0013"
down_revision = "0012"

SIGNS = (
    r"\u0080-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u200b\u200e-\u206f\u20a0-\u20cf"
    r"\u2190-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\ufe10-\ufe1f\ufe30-\ufe6f"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd"
)
"""As in revision 0007."""


def set_fast_update(value: str) -> str:
    """DDL of the word index: storage parameters are those of its partitions."""
    return f"""
do $$
declare part regclass;
begin
  for part in select inhrelid from pg_inherits where inhparent = 'entries_by_lexeme'::regclass loop
    execute format('alter index %s set (fastupdate = {value})', part);
    perform gin_clean_pending_list(part);
  end loop;
end $$;
"""


# The same text as before: translate() took four times as long as one more sign in the expression.
UP = rf"""
-- First, since it takes the longest and keeps out writers only; the last step keeps out readers too.
create index entries_by_expiry on entries (tenant_id, expires_at) where expires_at is not null;

create or replace function spaced_text(content text) returns text
language sql immutable parallel safe
return pg_catalog.regexp_replace(content, '[{SIGNS}/_.:@#-]', ' ', 'g');

-- Entries of one statement have most words in common. Noted in the index's pending list and moved into the index
-- together, 500 of them take a fifth of the time; a search would pay for what is left in the list, so nothing is. Only
-- the owner of an index may do that. The function reads no entry's content and returns nothing.
create function index_words() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare part regclass;
begin
  for part in
    select x.indexrelid
      from pg_index x join pg_inherits i on i.inhrelid = x.indexrelid
     where i.inhparent = 'public.entries_by_lexeme'::regclass
       and x.indrelid in (select e.tableoid
                            from (select distinct on (tenant_id) tenant_id, id from added) a
                           cross join lateral (select tableoid from entries
                                                where tenant_id = a.tenant_id and id = a.id) e)
  loop
    perform gin_clean_pending_list(part);
  end loop;
  return null;
end $$;
revoke all on function index_words() from public;
create trigger words_inserted after insert on entries
  referencing new table as added for each statement execute function index_words();
create trigger words_updated after update on entries
  referencing new table as added for each statement execute function index_words();
{set_fast_update("on")}
"""

DOWN = rf"""
drop index entries_by_expiry;
{set_fast_update("off")}
drop trigger words_updated on entries;
drop trigger words_inserted on entries;
drop function index_words();
create or replace function spaced_text(content text) returns text
language sql immutable parallel safe
return pg_catalog.translate(pg_catalog.regexp_replace(content, '[{SIGNS}]', ' ', 'g'), '/-_.:@#', '       ');
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
