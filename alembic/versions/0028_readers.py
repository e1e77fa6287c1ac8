"""Entries, assets and sources have readers and writers: groups and users of their tenant, which policies compare with
those of the transaction.

The index of words is built again with the readers as its third column, and the unique indexes of names and contents
with them as their last. `entries` is locked while that happens. After a downgrade every reader of a tenant could read
everything, so it is refused for a database with permissions.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, load_function, run_file, update_each_tenant

revision = "0028"
down_revision = "0027"

KEYS = """
comment on column assets.readers is 'Who may read the asset and its chunks; null: all readers of the tenant';
comment on column assets.writers is
  'Who of its readers may change the asset and its chunks; null: all creators of the tenant';
comment on column entries.readers is
  'Who may read the entry; null: all readers of the tenant. A chunk has those of its asset';
comment on column entries.writers is
  'Who of its readers may change the entry; null: all creators of the tenant. A chunk has those of its asset';
comment on column sources.readers is 'Who may see the source, and read its assets; null: all readers of the tenant';
comment on column sources.writers is
  'Who of them may send manifests and files, and change its assets; null: all creators';
comment on column source_items.readers is 'Those that the manifest gave the item; null: those of the source';
comment on column embeddings.readers is 'Those of the entry';
drop index assets_by_external_id, assets_by_bytes, entries_by_external_id, entries_by_content;
create unique index assets_by_external_id on assets (tenant_id, external_id, readers) nulls not distinct
  where source is null and external_id is not null;
create unique index assets_by_bytes on assets (tenant_id, sha256, readers) nulls not distinct
  where external_id is null and source is null;
create unique index entries_by_external_id on entries (tenant_id, external_id, readers) nulls not distinct
  where external_id is not null;
create unique index entries_by_content on entries (tenant_id, content_hash, readers) nulls not distinct
  where external_id is null and asset_id is null;
create index if not exists entries_with_readers on entries (tenant_id, id) where readers is not null;
alter table corpus_statistics add column if not exists principal text collate "C" not null default 'everyone';
alter table corpus_statistics drop constraint corpus_statistics_pkey;
alter table corpus_statistics add primary key (tenant_id, language, principal);
alter table subscriptions add column if not exists principals text[] not null default '{everyone}';
comment on column subscriptions.principals is 'Those of the owner at its last call: what it may not read is not sent';
comment on table lexeme_statistics is
  'Document frequency of the lexemes that are frequent in entries without readers; a search counts the others';
comment on table tag_statistics is
  'How many entries without readers have a tag, including hidden entries; 0 after the last one was removed';
"""
WORDS = """
do $$
declare part regclass;
begin
  if pg_get_indexdef('entries_by_lexeme'::regclass) not like '%audience(%' then
    drop index entries_by_lexeme;
    create index entries_by_lexeme on entries using gin (tenant_id, lexemes, audience(readers)) with (fastupdate = off);
    for part in select inhrelid from pg_inherits where inhparent = 'entries_by_lexeme'::regclass loop
      execute format('alter index %s set (fastupdate = on)', part);
    end loop;
  end if;
end $$
"""
FUNCTIONS = {
    "tenants": ("tenancy.delete_tenant",),
    "audit_pruning": ("tenancy.prune_audit",),
    "erasures": ("tenancy.pseudonymise_actor",),
    "statistics": ("count_entries", "count_tags", "stored_entries"),
    "entry_filter": ("repeats_another",),
    "versions": ("former_entry", "entries_at", "embeddings_at", "keep_version", "note_arrival"),
    "keyword_lookups": (
        *("keyword.filtered_ids", "keyword.matching_entries", "keyword.tag_overlaps"),
        "keyword.derived_entries",
    ),
    "keyword_words": ("keyword.matched_queries",),
    "keyword_search": ("keyword.search",),
    "former_search": ("keyword.former_ids", "keyword.former_words"),
}
POLICIES = """
do $$
declare place record;
begin
  for place in
    select polrelid::regclass as name, polname from pg_policy
     where polname = 'readers' or starts_with(polname, 'writers_')
  loop
    execute format('drop policy %I on %s', place.polname, place.name);
  end loop;
end $$
"""
IN_USE = """
if exists (select from permissions where tenant_id = tenant) then
  raise exception 'a tenant uses permissions, and the earlier version would show everything to all callers'
    using errcode = 'object_not_in_prerequisite_state';
end if
"""
TRIGGERS = {
    "entries": ("inherit_readers", "pass_on_readers", "check_links", "end_links", "note_permissions"),
    "assets": ("pass_on_readers", "note_permissions"),
    "embeddings": ("inherit_readers",),
    "sources": ("note_permissions",),
    "source_items": ("note_permissions",),
}


def upgrade() -> None:
    run_file("readers")
    run_file("access_columns")
    execute_script(KEYS)
    execute_script(WORDS)
    for file, functions in FUNCTIONS.items():
        for function in functions:
            load_function(file, function)
    run_file("access")
    run_file("tenant_isolation")


def downgrade() -> None:
    """Leave the columns and the keys with them: functions that a downgrade leaves read them."""
    update_each_tenant(IN_USE)
    execute_script(POLICIES)
    for table, triggers in TRIGGERS.items():
        execute_script("; ".join(f"drop trigger if exists {trigger} on {table}" for trigger in triggers))
    for function in sorted({trigger for triggers in TRIGGERS.values() for trigger in triggers}):
        execute_script(f"drop function {function}()")
    execute_script(
        "drop function may_change(uuid, uuid); drop function sees_everything(); drop table permissions"
    )
