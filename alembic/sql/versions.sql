-- Former versions of entries, for tenants that keep them (`keep_versions_days`), and entries as they were at a time.

-- The columns of `entries`, those that are generated there as plain values. `absent`: no version but a time without the
-- entry, before an import brought it with an older time of its last change. A version is valid from `valid_from` until
-- just before `valid_until`; the versions of an entry do not overlap. `withheld`: a quarantine of today reaches back to it.
create table former_entries (
  like entries,
  valid_from timestamptz not null,
  valid_until timestamptz not null,
  embedded integer[] not null default '{}',
  absent boolean not null default false,
  withheld boolean not null default false,
  primary key (tenant_id, id, valid_until),
  foreign key (tenant_id) references tenants on delete cascade
);
comment on column former_entries.withheld is
  'The entry is quarantined, or was when it was deleted, or a chunk of the same asset with this text is';
comment on column former_entries.embedded is 'The models of the vectors that former_embeddings has for the text';
create index former_entries_by_end on former_entries (tenant_id, valid_until);
create index former_entries_by_time on former_entries (tenant_id, valid_until) include (id, valid_from, embedded)
  where not absent;
create index former_entries_by_asset on former_entries (tenant_id, asset_id, valid_until) where asset_id is not null;
create index former_entries_by_repeated on former_entries (tenant_id, repeats) where repeats is not null;
create index former_entries_by_lexeme on former_entries using gin (tenant_id, lexemes);
create index former_entries_by_tag on former_entries using gin (tenant_id, tags);
create index former_entries_by_metadata on former_entries using gin (tenant_id, metadata jsonb_path_ops);

-- The vectors of former texts, one set for each text that an entry had.
create table former_embeddings (
  tenant_id uuid not null references tenants on delete cascade,
  entry_id uuid not null,
  text_hash bytea not null,
  model_id integer not null references embedding_models,
  passage integer not null,
  char_start integer not null,
  char_end integer not null,
  embedding halfvec not null,
  readers text[],
  primary key (tenant_id, entry_id, text_hash, model_id, passage)
);
alter table former_embeddings alter column embedding set storage plain;

create table kept_versions (
  tenant_id uuid primary key references tenants on delete cascade,
  since timestamptz not null
);
comment on table kept_versions is 'Since when a tenant keeps former versions without a gap: the earliest time that a search can name';

-- A former version as a row of `entries`, for the functions on such rows; one that is withheld is as if quarantined then.
create or replace function former_entry(v former_entries) returns entries
language sql stable parallel safe
return row(v.tenant_id, v.id, v.entry_type, v.title, v.content, v.tags, v.roles, v.confidence, v.scope, v.parent_id,
           v.source_ids, v.superseded_by_id, v.is_verified, v.asset_id, v.chunk_index, v.metadata, v.language,
           v.expires_at, v.external_id, v.content_hash, v.text_hash, v.version, v.created_at, v.updated_at,
           v.lexemes, v.text_length, v.repeats, v.word_weights, v.quarantined or v.withheld, v.readers, v.writers,
           v.pattern)::entries;
revoke all on function former_entry(former_entries) from public;
grant execute on function former_entry(former_entries) to kb_reader, kb_keyword;

-- The entries with these ids as they were at a time; those that did not exist then are missing.
create or replace function entries_at(p_ids uuid[], p_as_of timestamptz) returns setof entries
language plpgsql stable
as $$
declare tenant constant uuid := public.current_tenant();
begin
  return query
    select e.* from public.entries e
     where e.tenant_id = tenant and e.id = any (p_ids) and e.updated_at <= p_as_of and public.was_current(e.id, p_as_of)
    union all
    select v.tenant_id, v.id, v.entry_type, v.title, v.content, v.tags, v.roles, v.confidence, v.scope, v.parent_id,
           v.source_ids, v.superseded_by_id, v.is_verified, v.asset_id, v.chunk_index, v.metadata, v.language,
           v.expires_at, v.external_id, v.content_hash, v.text_hash, v.version, v.created_at, v.updated_at,
           v.lexemes, v.text_length, v.repeats, v.word_weights, v.quarantined or v.withheld, v.readers, v.writers,
           v.pattern
      from public.former_entries v
     where v.tenant_id = tenant and v.id = any (p_ids) and v.valid_from <= p_as_of and v.valid_until > p_as_of
       and not v.absent;
end $$;
revoke all on function entries_at(uuid[], timestamptz) from public;
grant execute on function entries_at(uuid[], timestamptz) to kb_reader;

-- The vectors of a model that these entries had at a time, by their text then.
create or replace function embeddings_at(p_ids uuid[], p_as_of timestamptz, p_model integer) returns setof embeddings
language plpgsql stable
as $$
declare tenant constant uuid := public.current_tenant();
begin
  return query
    select k.* from public.entries e
      join public.embeddings k on k.tenant_id = tenant and k.entry_id = e.id and k.model_id = p_model
     where e.tenant_id = tenant and e.id = any (p_ids) and e.updated_at <= p_as_of and public.was_current(e.id, p_as_of)
    union all
    select k.tenant_id, k.entry_id, k.model_id, k.passage, k.text_hash, k.char_start, k.char_end, false, k.embedding, k.readers
      from public.former_entries v
      join public.former_embeddings k on k.tenant_id = tenant and k.entry_id = v.id and k.text_hash = v.text_hash
                                     and k.model_id = p_model
     where v.tenant_id = tenant and v.id = any (p_ids) and v.valid_from <= p_as_of and v.valid_until > p_as_of
       and not v.absent;
end $$;
revoke all on function embeddings_at(uuid[], timestamptz, integer) from public;
grant execute on function embeddings_at(uuid[], timestamptz, integer) to kb_reader;

-- The number of former versions of the filter's time that pass it and have no vector of a model. At most p_limit are looked
-- at; with more, the result is a lower bound, and at least 1.
create or replace function pending_versions(p_tenant uuid, p_model integer, p_filter entry_filter, p_limit integer) returns bigint
language plpgsql stable
as $$
declare
  counted bigint;
  looked_at bigint;
begin
  select count(*) filter (where v.passes), count(*) into counted, looked_at
    from (select w.id, w.valid_until from former_entries w
           where w.tenant_id = p_tenant and w.valid_until > p_filter.as_of and w.valid_from <= p_filter.as_of
             and not w.absent and p_model <> all (w.embedded)
           limit p_limit) o
   cross join lateral (
     select entry_passes(former_entry(v), p_filter) as passes from former_entries v
      where v.tenant_id = p_tenant and v.id = o.id and v.valid_until = o.valid_until
    offset 0) v;
  return case when looked_at >= p_limit then greatest(counted, 1) else counted end;
end $$;
revoke all on function pending_versions(uuid, integer, entry_filter, integer) from public;
grant execute on function pending_versions(uuid, integer, entry_filter, integer) to kb_reader;

-- Each statement that writes entries notes in its transaction whether the tenant keeps former versions, once. The triggers
-- for rows compare two settings, which costs a write of a tenant that keeps none almost nothing. In a cluster of Citus they
-- run on the tenant's node, where each of their statements must be about one tenant, given as a value, and have columns.
create or replace function note_keeping() returns trigger language plpgsql
as $$
declare
  writer constant text := coalesce(pg_catalog.current_setting('app.current_tenant', true), '');
  tenant constant uuid := public.current_tenant();
  days integer;
begin
  if coalesce(pg_catalog.current_setting('app.keeps_versions', true), '') not in (writer, 'not ' || writer) then
    select (t.settings ->> 'keep_versions_days')::integer into days from public.tenants t where t.id = tenant;
    perform pg_catalog.set_config('app.keeps_versions', case when days > 0 then writer else 'not ' || writer end, true);
  end if;
  return null;
end $$;
revoke all on function note_keeping() from public;

-- Keeps the version that a change or a removal ends. It ends when the next one begins; a change that does not set its time,
-- such as of a link to a deleted entry, or sets a former one, as an import does, counts from now.
create or replace function keep_version() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  started timestamptz;
  ended timestamptz := statement_timestamp();
  models integer[];
  -- Former versions have the readers of today.
  allowed constant text[] := case when tg_op = 'UPDATE' then new.readers else old.readers end;
begin
  if tg_op = 'UPDATE' then
    if (old.entry_type, old.title, old.content, old.tags, old.roles, old.confidence, old.scope, old.parent_id,
        old.source_ids, old.superseded_by_id, old.is_verified, old.asset_id, old.chunk_index, old.metadata,
        old.language, old.expires_at, old.external_id, old.version, old.created_at, old.updated_at, old.quarantined)
       is not distinct from
       (new.entry_type, new.title, new.content, new.tags, new.roles, new.confidence, new.scope, new.parent_id,
        new.source_ids, new.superseded_by_id, new.is_verified, new.asset_id, new.chunk_index, new.metadata,
        new.language, new.expires_at, new.external_id, new.version, new.created_at, new.updated_at, new.quarantined) then
      return new;
    end if;
    if new.updated_at >= now() then
      ended := new.updated_at;
    end if;
  end if;
  select max(v.valid_until) into started from former_entries v where v.tenant_id = old.tenant_id and v.id = old.id;
  started := greatest(started, old.updated_at);
  if started < ended then
    select coalesce(array_agg(distinct k.model_id), '{}') into models from embeddings k
     where k.tenant_id = old.tenant_id and k.entry_id = old.id and k.text_hash = old.text_hash;
    insert into former_entries (
      tenant_id, id, entry_type, title, content, tags, roles, confidence, scope, parent_id, source_ids,
      superseded_by_id, is_verified, asset_id, chunk_index, metadata, language, expires_at, external_id,
      content_hash, text_hash, version, created_at, updated_at, lexemes, text_length, repeats, word_weights, quarantined,
      readers, pattern, valid_from, valid_until, embedded, withheld)
    values (old.tenant_id, old.id, old.entry_type, old.title, old.content, old.tags, old.roles, old.confidence,
            old.scope, old.parent_id, old.source_ids, old.superseded_by_id, old.is_verified, old.asset_id,
            old.chunk_index, old.metadata, old.language, old.expires_at, old.external_id, old.content_hash,
            old.text_hash, old.version, old.created_at, old.updated_at, old.lexemes, old.text_length,
            old.repeats, old.word_weights, old.quarantined, allowed, old.pattern, started, ended, models,
            case when tg_op = 'UPDATE' then new.quarantined else old.quarantined end)
    on conflict do nothing;
    if models <> '{}' then
      insert into former_embeddings (tenant_id, entry_id, text_hash, model_id, passage, char_start, char_end, embedding, readers)
      select k.tenant_id, k.entry_id, k.text_hash, k.model_id, k.passage, k.char_start, k.char_end, k.embedding, allowed
        from embeddings k
       where k.tenant_id = old.tenant_id and k.entry_id = old.id and k.text_hash = old.text_hash
      on conflict do nothing;
      -- Earlier versions with the same text, which had no vector yet.
      update former_entries v set embedded = models
       where v.tenant_id = old.tenant_id and v.id = old.id and v.text_hash = old.text_hash and v.embedded <> models;
    end if;
  end if;
  if tg_op = 'UPDATE' and old.quarantined <> new.quarantined then
    -- A quarantine reaches back to all versions of the entry, and to chunks of an earlier ingestion with its text. When it
    -- ends, by a release or by a change in this transaction, versions without flags are found again, except those with a
    -- text that was quarantined. A release also holds for those with its text, tags and metadata.
    update former_entries v set withheld = new.quarantined
     where v.tenant_id = old.tenant_id
       and (v.id = old.id or v.asset_id = old.asset_id and v.text_hash = old.text_hash)
       and (new.quarantined
            or old.updated_at < now() and v.text_hash = old.text_hash and v.tags <@ old.tags
               and (v.asset_id is not null or v.metadata - 'flags' = old.metadata - 'flags')
            or coalesce(v.metadata -> 'flags', '[]') = '[]' and not exists (
                 select from former_entries q
                  where q.tenant_id = v.tenant_id and q.id = v.id and q.quarantined and q.text_hash = v.text_hash))
       and v.withheld <> new.quarantined;
  end if;
  return case when tg_op = 'UPDATE' then new else old end;
end $$;
revoke all on function keep_version() from public;

-- An import brings entries with the times of their changes elsewhere: until now, they were not here.
create or replace function note_arrival() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into former_entries (tenant_id, id, entry_type, content, tags, roles, confidence, scope, source_ids, is_verified,
                              metadata, language, content_hash, text_hash, version, created_at, updated_at, valid_from,
                              valid_until, quarantined, readers, absent)
  values (new.tenant_id, new.id, new.entry_type, '', '{}', '{all}', 1, new.scope, '{}', false, '{}', new.language, '', '',
          new.version, new.created_at, new.updated_at, '-infinity', statement_timestamp(), false, new.readers, true)
  on conflict do nothing;
  return new;
end $$;
revoke all on function note_arrival() from public;

create trigger note_keeping before insert or update or delete on entries
  for each statement execute function note_keeping();
create trigger keep_changed before update on entries for each row
  when (current_setting('app.keeps_versions', true) = nullif(current_setting('app.current_tenant', true), ''))
  execute function keep_version();
create trigger keep_removed before delete on entries for each row
  when (current_setting('app.keeps_versions', true) = nullif(current_setting('app.current_tenant', true), ''))
  execute function keep_version();
create trigger note_arrival before insert on entries for each row
  when (current_setting('app.keeps_versions', true) = nullif(current_setting('app.current_tenant', true), '')
        and new.updated_at < now())
  execute function note_arrival();
