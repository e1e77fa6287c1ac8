-- Assets and entries, their indexes, and the maintenance of the word index.

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
  tags text[] not null default '{}',
  roles text[] not null default '{all}',
  metadata jsonb not null default '{}',
  status text not null default 'pending' check (status in ('pending', 'processing', 'indexed', 'failed')),
  error text,
  progress real not null default 0 check (progress between 0 and 1),
  generation integer not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  given_title text check (length(given_title) between 1 and 1000),
  version bigint not null default 1,
  outline jsonb,
  pages_without_text integer[] not null default '{}',
  places_without_text integer[] not null default '{}',
  flags jsonb,
  source text,
  encoding text,
  encoding_guessed boolean,
  removed_controls integer,
  readers text[] check (readers is null or is_principal_list(readers)),
  writers text[] check (writers is null or is_principal_list(writers)),
  primary key (tenant_id, id)
);
comment on column assets.outline is
  'headings (start, level, title), pages (start, end), tables (start, end of the header, end) as offsets in the text';
comment on column assets.pages_without_text is 'pages that show something and have no text, as scanned pages do';
comment on column assets.places_without_text is 'offsets in the text where a picture of text was not recognised';
comment on column assets.encoding is 'the encoding of a text, as declared until it was read';
comment on column assets.flags is 'how many chunks have each flag of suspicious content';
comment on column assets.title is 'the title that the file itself has';
comment on column assets.given_title is 'the title that a caller gave; it replaces the one of the file';
comment on column assets.version is 'counts the changes that callers made; the ETag';
comment on column assets.source is 'The source that the asset belongs to, which has given it its external_id';
comment on column assets.readers is 'Who may read the asset and its chunks; null: all readers of the tenant';
comment on column assets.writers is
  'Who of its readers may change the asset and its chunks; null: all creators of the tenant';
alter table assets alter column original set storage external;
-- Unique among the rows with the same readers: the writer of a row is one of its readers, so that a conflict tells nothing
-- that it could not read.
create unique index assets_by_external_id on assets (tenant_id, external_id, readers) nulls not distinct
  where source is null and external_id is not null;
create unique index assets_by_bytes on assets (tenant_id, sha256, readers) nulls not distinct
  where external_id is null and source is null;
create index assets_by_source on assets (tenant_id, source) where source is not null;
create index assets_same_bytes on assets (tenant_id, sha256);
create index assets_by_time on assets (tenant_id, created_at desc, id desc);

create table entries (
  tenant_id uuid not null references tenants on delete cascade,
  id uuid not null,
  entry_type text not null check (entry_type in
    ('fact', 'summary', 'template', 'decision', 'lesson', 'temp_note', 'insight', 'chunk')),
  title text,
  content text not null,
  tags text[] not null default '{}',
  roles text[] not null default '{all}' check (roles <@ '{pm,dev,qa,all}' and roles <> '{}'),
  confidence double precision not null default 1 check (confidence between 0 and 1),
  scope text not null default 'global' check (scope in ('global', 'project')),
  parent_id uuid,
  source_ids uuid[] not null default '{}',
  superseded_by_id uuid,
  is_verified boolean not null default false,
  asset_id uuid,
  chunk_index integer,
  metadata jsonb not null default '{}',
  language text not null check (language in
    ('simple', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french',
     'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali',
     'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish',
     'yiddish')),
  expires_at timestamptz,
  external_id text check (length(external_id) between 1 and 512),
  content_hash bytea not null,
  text_hash bytea not null,
  version bigint not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  lexemes tsvector /* one server */ /* Citus: generated always as (entry_lexemes(language, title, content)) stored */,
  text_length integer generated always as (length(content) + 2 * coalesce(length(title), 0)) stored,
  repeats uuid,
  word_weights sparsevec storage main
    /* one server */ /* Citus: generated always as (entry_weights(language, title, content)) stored */,
  quarantined boolean not null default false,
  readers text[] check (readers is null or is_principal_list(readers)),
  writers text[] check (writers is null or is_principal_list(writers)),
  pattern bigint generated always as (text_pattern(title, content)) stored,
  primary key (tenant_id, id),
  foreign key (tenant_id, parent_id) references entries (tenant_id, id)
    /* one server */ on delete set null (parent_id) /* Citus: deferrable initially deferred */,
  foreign key (tenant_id, superseded_by_id) references entries (tenant_id, id)
    /* one server */ on delete set null (superseded_by_id) /* Citus: deferrable initially deferred */,
  foreign key (tenant_id, asset_id) references assets (tenant_id, id) on delete cascade,
  check ((entry_type = 'chunk') = (asset_id is not null and chunk_index is not null))
) /* one server */ partition by hash (tenant_id) /* Citus: */;
comment on column entries.content_hash is 'sha256 of the content; identifies an entry without external_id';
comment on column entries.text_length is
  'Length in characters, with the title twice, as in lexemes; BM25 ranks as well with it as with a count of words';
comment on column entries.word_weights is
  'The words for BM25, scored by an inner product; stored in the row, since searches read it from many entries';
comment on column entries.text_hash is 'sha256 of the text that is embedded: title and content';
comment on column entries.readers is 'Who may read the entry; null: all readers of the tenant. A chunk has those of its asset';
comment on column entries.writers is
  'Who of its readers may change the entry; null: all creators of the tenant. A chunk has those of its asset';
comment on column entries.quarantined is 'hidden from searches for its suspicious content, until it is released';
comment on column entries.pattern is 'the same in near-duplicates, which differ only in numbers and dates: see text_pattern()';
comment on column entries.repeats is
  'the chunk that this one repeats, of the first asset with the same bytes: see repeats_another()';

-- Partitioned by tenant: a search and a write touch the indexes of a 32nd of all entries. Citus has shards instead.
/* one server */
do $$
begin
  for n in 0..31 loop
    execute format('create table %1$s_p%2$s partition of %1$s for values with (modulus 32, remainder %3$s)',
                   'entries', lpad(n::text, 2, '0'), n);
  end loop;
end $$;
/* Citus: */

create unique index entries_by_external_id on entries (tenant_id, external_id, readers) nulls not distinct
  where external_id is not null;
create unique index entries_by_content on entries (tenant_id, content_hash, readers) nulls not distinct
  where external_id is null and asset_id is null;
create index entries_same_content on entries (tenant_id, content_hash) where external_id is not null;
create unique index entries_by_chunk on entries (tenant_id, asset_id, chunk_index) where asset_id is not null;
create index entries_by_repeated on entries (tenant_id, repeats) where repeats is not null;
create index entries_by_parent on entries (tenant_id, parent_id) where parent_id is not null;
create index entries_by_successor on entries (tenant_id, superseded_by_id) where superseded_by_id is not null;
create index entries_by_time on entries (tenant_id, created_at desc, id desc);
-- fastupdate off: a pending list would slow down searches.
create index entries_by_lexeme on entries using gin (tenant_id, lexemes, audience(readers), word_parts(language, title, lexemes))
  with (fastupdate = /* one server */ off /* Citus: on */);
create index entries_by_tag on entries using gin (tenant_id, tags) with (fastupdate = off);
create index entries_by_metadata on entries using gin (tenant_id, metadata jsonb_path_ops) with (fastupdate = off);
create index entries_by_source on entries using gin (tenant_id, source_ids) with (fastupdate = off);
create index entries_by_expiry on entries (tenant_id, expires_at) where expires_at is not null;

create index entries_with_readers on entries (tenant_id, id) where readers is not null;
create index entries_quarantined on entries (tenant_id, created_at desc, id desc) where quarantined;
create index entries_flagged on entries (tenant_id, id) where metadata ? 'flags';

-- The parts of entries_by_lexeme do have a pending list; index_words() empties it after each statement.
/* one server */
do $$
declare part regclass;
begin
  for part in select inhrelid from pg_inherits where inhparent = 'entries_by_lexeme'::regclass loop
    execute format('alter index %s set (fastupdate = on)', part);
  end loop;
end $$;
/* Citus: */

-- Sets the words of an entry and their weights, whatever the statement gives. Generated columns cannot refer to each other:
-- they would compute the words twice, and also for each change of other columns, since there are triggers before updates. A
-- cluster of Citus has such columns, since it cannot turn those of a stored table into others.
/* one server */
create or replace function compute_words() returns trigger language plpgsql
as $$
begin
  new.lexemes := public.entry_lexemes(new.language, new.title, new.content);
  new.word_weights := public.lexeme_weights(new.language, new.lexemes);
  return new;
end $$;
revoke all on function compute_words() from public;

create trigger compute_words before insert or update of language, title, content, lexemes, word_weights on entries
  for each row execute function compute_words();
/* Citus: */

-- The entries of one statement share most of their words. Collected in the index's pending list and moved into the index
-- together, 500 entries take a fifth of the time. The list is always emptied, since a remainder would slow down
-- searches. Only the owner of an index may do that. The function reads no content of entries and returns nothing.
create or replace function index_words() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare part regclass;
begin
  -- The table of one server has partitions; a shard has another name and is the place itself.
  if tg_table_name = 'entries' then
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
  else
    for part in
      select c.oid from pg_index x join pg_class c on c.oid = x.indexrelid
       where x.indrelid = tg_relid and c.reloptions @> '{fastupdate=on}'
    loop
      perform gin_clean_pending_list(part);
    end loop;
  end if;
  return null;
end $$;
revoke all on function index_words() from public;

create trigger words_inserted after insert on entries
  referencing new table as added for each statement execute function index_words();
create trigger words_updated after update on entries
  referencing new table as added for each statement execute function index_words();

/* one server */
/* Citus:
-- Citus cannot clear part of a key, so that links to deleted entries are cleared here; the keys are checked at the commit.
create or replace function clear_links() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  writer uuid;
  ids uuid[];
begin
  for writer in select distinct r.tenant_id from removed r order by 1 loop
    ids := array(select r.id from removed r where r.tenant_id = writer);
    -- An update of no row runs all triggers too.
    if exists (select from entries e where e.tenant_id = writer and e.parent_id = any (ids)) then
      update entries set parent_id = null where tenant_id = writer and parent_id = any (ids);
    end if;
    if exists (select from entries e where e.tenant_id = writer and e.superseded_by_id = any (ids)) then
      update entries set superseded_by_id = null where tenant_id = writer and superseded_by_id = any (ids);
    end if;
  end loop;
  return null;
end $$;
revoke all on function clear_links() from public;

create trigger links_deleted after delete on entries
  referencing old table as removed for each statement execute function clear_links();
*/
