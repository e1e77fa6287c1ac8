"""Assets, entries, embeddings, and the counters that ranking and planning need."""

from __future__ import annotations

from app.db.schema.migration import execute_script, isolate_tables

revision = "0002"
down_revision = "0001"

PARTITIONS = 32
LANGUAGES = (
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french",
    "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
    "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish",
    "yiddish",
)  # fmt: skip


def partitions(table: str) -> str:
    """DDL of the hash partitions by tenant: a tenant's share of its HNSW index stays large."""
    return "\n".join(
        f"create table {table}_p{n:02} partition of {table} for values with (modulus {PARTITIONS}, remainder {n});"
        for n in range(PARTITIONS)
    )


def by_language(expression: str) -> str:
    """A CASE with constant configurations: a regconfig column or a cast would not be immutable."""
    cases = (
        f"when '{name}' then " + expression.format(config=f"'pg_catalog.{name}'::regconfig")
        for name in LANGUAGES
    )
    return f"case language {' '.join(cases)} end"


TEXT_LEXEMES = by_language(
    "pg_catalog.to_tsvector({config}, pg_catalog.translate(content, '/-_.:@#', '       '))"
)

TEXT_PHRASE = by_language(
    "pg_catalog.phraseto_tsquery({config}, pg_catalog.translate(content, '/-_.:@#', '       '))"
)

UP = f"""
-- How text becomes lexemes, for entries and queries alike. Punctuation inside words is opened up so that the
-- parts of "vercel.json" or "KNOW-004" are found, and identifiers are kept whole beside their parts.
create function text_lexemes(language text, content text) returns tsvector
language sql immutable parallel safe
return {TEXT_LEXEMES};

create function text_phrase(language text, content text) returns tsquery
language sql immutable parallel safe
return {TEXT_PHRASE};

create function identifier_lexemes(content text) returns tsvector
language sql immutable parallel safe
begin atomic
  select pg_catalog.array_to_tsvector(coalesce(array_agg(distinct lower(found[1])), '{{}}'))
  from pg_catalog.regexp_matches(content, '([[:alnum:]]+(?:[-._/:][[:alnum:]]+)+)', 'g') found
  where found[1] ~ '[0-9_.]' and length(found[1]) <= 200;
end;

-- The title counts twice and carries weight A.
create function entry_lexemes(language text, title text, content text) returns tsvector
language sql immutable parallel safe
return case when title is null then text_lexemes(language, content) || identifier_lexemes(content)
       else setweight(text_lexemes(language, title), 'A') || setweight(text_lexemes(language, title), 'A')
            || text_lexemes(language, content) || identifier_lexemes(title || ' ' || content) end;

create table assets (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  external_id text check (length(external_id) between 1 and 512),
  name text not null check (length(name) between 1 and 512),
  media_type text not null,
  byte_size bigint not null,
  sha256 bytea not null check (length(sha256) = 32),
  original bytea not null,
  title text,
  extracted_text text,
  total_pages integer,
  tags text[] not null default '{{}}',
  roles text[] not null default '{{all}}',
  metadata jsonb not null default '{{}}',
  status text not null default 'pending' check (status in ('pending', 'processing', 'indexed', 'failed')),
  error text,
  progress real not null default 0 check (progress between 0 and 1),
  generation integer not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  unique (tenant_id, external_id)
);
alter table assets alter column original set storage external;
create unique index assets_by_bytes on assets (tenant_id, sha256) where external_id is null;
create index assets_by_time on assets (tenant_id, created_at desc, id desc);

create table entries (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  entry_type text not null check (entry_type in
    ('fact', 'summary', 'template', 'decision', 'lesson', 'temp_note', 'insight', 'chunk')),
  title text,
  content text not null,
  tags text[] not null default '{{}}',
  roles text[] not null default '{{all}}' check (roles <@ '{{pm,dev,qa,all}}' and roles <> '{{}}'),
  confidence double precision not null default 1 check (confidence between 0 and 1),
  scope text not null default 'global' check (scope in ('global', 'project')),
  parent_id uuid,
  source_ids uuid[] not null default '{{}}',
  superseded_by_id uuid,
  is_verified boolean not null default false,
  asset_id uuid,
  chunk_index integer,
  metadata jsonb not null default '{{}}',
  language text not null check (language in ({", ".join(f"'{name}'" for name in LANGUAGES)})),
  expires_at timestamptz,
  external_id text check (length(external_id) between 1 and 512),
  content_hash bytea not null,
  text_hash bytea not null,
  version bigint not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  lexemes tsvector generated always as (entry_lexemes(language, title, content)) stored,
  text_length integer generated always as (length(content) + 2 * coalesce(length(title), 0)) stored,
  primary key (tenant_id, id),
  foreign key (tenant_id, parent_id) references entries (tenant_id, id) on delete set null (parent_id),
  foreign key (tenant_id, superseded_by_id) references entries (tenant_id, id) on delete set null (superseded_by_id),
  foreign key (tenant_id, asset_id) references assets (tenant_id, id) on delete cascade,
  check ((entry_type = 'chunk') = (asset_id is not null and chunk_index is not null))
) partition by hash (tenant_id);
comment on column entries.content_hash is 'sha256 of the content: what makes an entry without external_id the same';
comment on column entries.text_length is
  'Length in characters, title twice, as in lexemes: BM25 with it ranks no worse than with a count of words';
comment on column entries.text_hash is 'sha256 of the text that is embedded: title and content';
{partitions("entries")}
create unique index entries_by_external_id on entries (tenant_id, external_id) where external_id is not null;
create unique index entries_by_content on entries (tenant_id, content_hash)
  where external_id is null and asset_id is null;
create index entries_same_content on entries (tenant_id, content_hash) where external_id is not null;
create unique index entries_by_chunk on entries (tenant_id, asset_id, chunk_index) where asset_id is not null;
create index entries_by_parent on entries (tenant_id, parent_id) where parent_id is not null;
create index entries_by_successor on entries (tenant_id, superseded_by_id) where superseded_by_id is not null;
create index entries_by_time on entries (tenant_id, created_at desc, id desc);
-- fastupdate off: a search would pay for the pending list.
create index entries_by_lexeme on entries using gin (tenant_id, lexemes) with (fastupdate = off);
create index entries_by_tag on entries using gin (tenant_id, tags) with (fastupdate = off);
create index entries_by_metadata on entries using gin (tenant_id, metadata jsonb_path_ops) with (fastupdate = off);
create index entries_by_source on entries using gin (tenant_id, source_ids) with (fastupdate = off);

create table embeddings (
  tenant_id uuid not null references tenants on delete cascade,
  entry_id uuid not null,
  model_id integer not null references embedding_models,
  passage integer not null check (passage >= 0),
  text_hash bytea not null,
  char_start integer not null,
  char_end integer not null,
  in_index boolean not null,
  embedding halfvec not null,
  primary key (tenant_id, entry_id, model_id, passage),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
) partition by hash (tenant_id);
comment on column embeddings.in_index is
  'Whether the HNSW index of the model covers the row; false for tenants small enough to be searched exactly';
-- Inline storage: out of line, each comparison would cost a second fetch.
alter table embeddings alter column embedding set storage plain;
{partitions("embeddings")}
create index embeddings_by_text on embeddings (tenant_id, text_hash, model_id);

-- Entries whose vectors are still to be made, per model. A row is removed with the vectors' arrival.
create table pending_embeddings (
  tenant_id uuid not null references tenants on delete cascade,
  model_id integer not null references embedding_models,
  entry_id uuid not null,
  attempts integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, model_id, entry_id),
  foreign key (tenant_id, entry_id) references entries (tenant_id, id) on delete cascade
);

-- Kept exact by the triggers below: the corpus size and mean length of BM25.
create table corpus_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  language text not null,
  entries bigint not null,
  characters bigint not null,
  changes bigint not null default 0,
  primary key (tenant_id, language)
);
comment on column corpus_statistics.changes is 'entries written or removed since lexeme_statistics was made';

create table lexeme_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  lexeme text collate "C" not null,
  entries integer not null,
  primary key (tenant_id, lexeme)
);
comment on table lexeme_statistics is
  'Document frequency of the frequent lexemes, refreshed in the background; rarer ones are counted by the search';

create table vector_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  model_id integer not null references embedding_models,
  passages bigint not null,
  index_state text not null default 'none' check (index_state in ('none', 'building', 'ready')),
  primary key (tenant_id, model_id)
);
comment on column vector_statistics.index_state is
  'ready: every passage of the tenant is in the HNSW index, and new ones go there at once';

create function count_entries() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_op in ('UPDATE', 'DELETE') then
    update corpus_statistics s
       set entries = s.entries - d.entries, characters = s.characters - d.characters, changes = s.changes + d.entries
      from (select tenant_id, language, count(*) as entries, sum(text_length) as characters
              from removed group by tenant_id, language) d
     where s.tenant_id = d.tenant_id and s.language = d.language;
  end if;
  if tg_op in ('UPDATE', 'INSERT') then
    insert into corpus_statistics as s (tenant_id, language, entries, characters, changes)
    select tenant_id, language, count(*), sum(text_length), count(*)
      from added group by tenant_id, language order by tenant_id, language
    on conflict (tenant_id, language) do update
       set entries = s.entries + excluded.entries, characters = s.characters + excluded.characters,
           changes = s.changes + excluded.changes;
  end if;
  return null;
end $$;
create trigger count_inserted after insert on entries
  referencing new table as added for each statement execute function count_entries();
create trigger count_updated after update on entries
  referencing old table as removed new table as added for each statement execute function count_entries();
create trigger count_deleted after delete on entries
  referencing old table as removed for each statement execute function count_entries();

create function count_passages() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    insert into vector_statistics as s (tenant_id, model_id, passages)
    select tenant_id, model_id, count(*) from added group by tenant_id, model_id order by tenant_id, model_id
    on conflict (tenant_id, model_id) do update set passages = s.passages + excluded.passages;
  else
    update vector_statistics s set passages = s.passages - d.passages
      from (select tenant_id, model_id, count(*) as passages from removed group by tenant_id, model_id) d
     where s.tenant_id = d.tenant_id and s.model_id = d.model_id;
  end if;
  return null;
end $$;
create trigger count_inserted after insert on embeddings
  referencing new table as added for each statement execute function count_passages();
create trigger count_deleted after delete on embeddings
  referencing old table as removed for each statement execute function count_passages();

revoke all on function count_entries(), count_passages() from public;
revoke all on function text_lexemes(text, text), text_phrase(text, text), identifier_lexemes(text),
  entry_lexemes(text, text, text) from public;
grant execute on function text_lexemes(text, text), text_phrase(text, text), identifier_lexemes(text),
  entry_lexemes(text, text, text) to kb_app;
{isolate_tables("assets", "entries", "embeddings", "pending_embeddings", "corpus_statistics", "lexeme_statistics", "vector_statistics")}
"""

DOWN = """
drop table vector_statistics, lexeme_statistics, corpus_statistics, pending_embeddings, embeddings, entries, assets;
drop function count_entries(), count_passages();
drop function entry_lexemes(text, text, text), identifier_lexemes(text), text_phrase(text, text),
  text_lexemes(text, text);
"""


def upgrade() -> None:
    execute_script(UP)


def downgrade() -> None:
    execute_script(DOWN)
