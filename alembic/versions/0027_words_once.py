"""A trigger computes the words of an entry once, in place of two generated columns that each computed them.

The stored values stay as they are. A cluster of Citus, which has no statement for this, keeps its generated columns.
"""

from __future__ import annotations

from app.db.schema.migration import execute_script, is_citus, load_function

revision = "0027"
down_revision = "0026"

# A new database has plain columns and the trigger.
REPLACE = """
do $$
declare name text;
begin
  for name in
    select a.attname from pg_attribute a
     where a.attrelid = 'entries'::regclass and a.attname in ('lexemes', 'word_weights') and a.attgenerated = 's'
  loop
    execute format('alter table entries alter column %I drop expression', name);
  end loop;
  if not exists (select from pg_trigger where tgrelid = 'entries'::regclass and tgname = 'compute_words') then
    create trigger compute_words before insert or update of language, title, content, lexemes, word_weights on entries
      for each row execute function compute_words();
  end if;
end $$
"""


def upgrade() -> None:
    if not is_citus():
        load_function("entries", "compute_words")
        execute_script(REPLACE)


def downgrade() -> None:
    """Leave the columns and the trigger: the version before writes neither of them."""
