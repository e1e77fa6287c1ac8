"""The readers of chunks and of vectors are compared with those of their assets and entries once for each statement.

A trigger compared them for each row, which took a quarter of the time of Postgres in an ingestion. A cluster of Citus
has no such triggers.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, is_citus, load_function

revision = "0031"
down_revision = "0030"

REPLACE = """
drop trigger if exists inherit_added on entries;
drop trigger if exists inherit_added on embeddings;
drop trigger if exists inherit_readers on entries;
drop trigger if exists inherit_readers on embeddings;
create trigger inherit_added after insert on entries
  referencing new table as added for each statement execute function inherit_added('asset');
create trigger inherit_added after insert on embeddings
  referencing new table as added for each statement execute function inherit_added('entry');
create trigger inherit_readers before update of asset_id, readers, writers on entries for each row
  when (new.asset_id is not null) execute function inherit_readers('asset');
create trigger inherit_readers before update of entry_id, readers on embeddings for each row
  execute function inherit_readers('entry')
"""
RESTORE = """
drop trigger inherit_added on entries;
drop trigger inherit_added on embeddings;
drop trigger inherit_readers on entries;
drop trigger inherit_readers on embeddings;
create trigger inherit_readers before insert or update of asset_id, readers, writers on entries for each row
  when (new.asset_id is not null) execute function inherit_readers('asset');
create trigger inherit_readers before insert on embeddings for each row execute function inherit_readers('entry')
"""


def upgrade() -> None:
    load_function("access", "inherit_added")
    if not is_citus():
        execute_script(REPLACE)


def downgrade() -> None:
    if not is_citus():
        execute_script(RESTORE)
    execute_script("drop function inherit_added()")
