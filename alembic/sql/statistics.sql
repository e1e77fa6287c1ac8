-- Statistics of a tenant's entries for ranking, planning and suggestions, maintained by triggers or jobs.

-- Kept exact by the triggers below: the corpus size and mean length of BM25. Entries without readers count for `everyone`,
-- the others for each of their readers and for `*`: a caller adds up the rows of its own principals, and learns nothing of
-- other entries.
create table corpus_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  language text not null,
  entries bigint not null,
  characters bigint not null,
  changes bigint not null default 0,
  principal text collate "C" not null default 'everyone',
  primary key (tenant_id, language, principal)
);
comment on column corpus_statistics.changes is 'Entries written or removed since lexeme_statistics was refreshed';

create table lexeme_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  lexeme text collate "C" not null,
  entries integer not null,
  principal text collate "C" not null default 'everyone',
  primary key (tenant_id, lexeme, principal)
);
comment on table lexeme_statistics is
  'Document frequency of frequent lexemes, for principals as in corpus_statistics; a search counts the others';

create table vector_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  model_id integer not null references embedding_models,
  passages bigint not null,
  index_state text not null default 'none' check (index_state in ('none', 'building', 'ready')),
  searches bigint not null default 0,
  mean_similarity double precision not null default 0,
  primary key (tenant_id, model_id)
);
comment on column vector_statistics.index_state is
  'ready: every passage of the tenant is in its HNSW index, and new ones go there at once';
comment on column vector_statistics.mean_similarity is
  'Of the best hits of `searches`, which count only where everyone in the tenant may read that hit';

create or replace function count_entries() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  changed record;
  own constant text := begin_as_service();
begin
  if tg_op in ('UPDATE', 'DELETE') then
    for changed in
      select r.tenant_id, r.language, p.principal, count(*) as entries, sum(r.text_length)::bigint as characters
        from removed r cross join lateral unnest(audience(r.readers)) p (principal) group by 1, 2, 3 order by 1, 2, 3
    loop
      update corpus_statistics s
         set entries = s.entries - changed.entries, characters = s.characters - changed.characters,
             changes = s.changes + changed.entries
       where s.tenant_id = changed.tenant_id and s.language = changed.language and s.principal = changed.principal;
    end loop;
  end if;
  if tg_op in ('UPDATE', 'INSERT') then
    for changed in
      select a.tenant_id, a.language, p.principal, count(*) as entries, sum(a.text_length)::bigint as characters
        from added a cross join lateral unnest(audience(a.readers)) p (principal) group by 1, 2, 3 order by 1, 2, 3
    loop
      insert into corpus_statistics as s (tenant_id, language, principal, entries, characters, changes)
      values (changed.tenant_id, changed.language, changed.principal, changed.entries, changed.characters, changed.entries)
      on conflict (tenant_id, language, principal) do update
         set entries = s.entries + excluded.entries, characters = s.characters + excluded.characters,
             changes = s.changes + excluded.changes;
    end loop;
  end if;
  perform set_config('app.current_principals', own, true);
  return null;
end $$;
revoke all on function count_entries() from public;

create trigger count_inserted after insert on entries
  referencing new table as added for each statement execute function count_entries();
create trigger count_updated after update on entries
  referencing old table as removed new table as added for each statement execute function count_entries();
create trigger count_deleted after delete on entries
  referencing old table as removed for each statement execute function count_entries();

-- The number of all entries of the tenant and of their characters, for its limits: also those that the caller may not read.
create or replace function stored_entries(out entries bigint, out characters bigint)
language plpgsql stable set search_path = pg_catalog, public, pg_temp as $$
declare own constant text := begin_as_service();
begin
  -- In this order: on a node of a cluster, `into` in front of the name of a table names a shard.
  select coalesce(sum(s.characters), 0), coalesce(sum(s.entries), 0) into characters, entries
    from corpus_statistics s where s.tenant_id = current_tenant() and s.principal in ('everyone', '*');
  perform set_config('app.current_principals', own, true);
end $$;
revoke all on function stored_entries() from public;
grant execute on function stored_entries() to kb_reader;

create or replace function count_passages() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  changed record;
begin
  if tg_op = 'INSERT' then
    for changed in
      select tenant_id, model_id, count(*) as passages from added group by tenant_id, model_id order by tenant_id, model_id
    loop
      insert into vector_statistics as s (tenant_id, model_id, passages)
      values (changed.tenant_id, changed.model_id, changed.passages)
      on conflict (tenant_id, model_id) do update set passages = s.passages + excluded.passages;
    end loop;
  else
    for changed in
      select tenant_id, model_id, count(*) as passages from removed group by tenant_id, model_id order by tenant_id, model_id
    loop
      update vector_statistics s set passages = s.passages - changed.passages
       where s.tenant_id = changed.tenant_id and s.model_id = changed.model_id;
    end loop;
  end if;
  return null;
end $$;
revoke all on function count_passages() from public;

create trigger count_inserted after insert on embeddings
  referencing new table as added for each statement execute function count_passages();
create trigger count_deleted after delete on embeddings
  referencing old table as removed for each statement execute function count_passages();

create table tag_statistics (
  tenant_id uuid not null references tenants on delete cascade,
  tag text collate "C" not null,
  entries bigint not null,
  primary key (tenant_id, tag)
) with (fillfactor = 80);
comment on table tag_statistics is
  'How many entries without readers have a tag, including hidden entries; 0 after the last one was removed';
create index tag_statistics_by_use on tag_statistics (tenant_id, entries desc, tag) where entries > 0;

-- Tags are counted in a fixed order, so that writers of a tenant cannot deadlock. For a removed tag the count is only
-- lowered, and no row is inserted: when a tenant is deleted, its rows here may be deleted before its entries.
create or replace function count_tags() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  changed record;
begin
  if tg_op = 'INSERT' then
    for changed in
      select c.tenant_id, array_agg(c.tag) as tags, array_agg(c.n) as counts
        from (select e.tenant_id, t.tag collate "C" as tag, count(*) as n
                from added e cross join lateral unnest(e.tags) t (tag) where e.readers is null group by 1, 2) c
       group by 1 order by 1
    loop
      insert into tag_statistics as s (tenant_id, tag, entries)
      select changed.tenant_id, u.tag, u.n from unnest(changed.tags, changed.counts) u (tag, n) order by u.tag
      on conflict (tenant_id, tag) do update set entries = s.entries + excluded.entries;
    end loop;
  elsif tg_op = 'UPDATE' then
    for changed in
      select c.tenant_id, array_agg(c.tag) as tags, array_agg(c.n) as counts
        from (select u.tenant_id, u.tag collate "C" as tag, sum(u.n)::bigint as n
                from (select a.tenant_id, t.tag, 1 as n from added a cross join lateral unnest(a.tags) t (tag) where a.readers is null
                      union all
                      select r.tenant_id, t.tag, -1 from removed r cross join lateral unnest(r.tags) t (tag)
                       where r.readers is null) u
               group by 1, 2 having sum(u.n) <> 0) c
       group by 1 order by 1
    loop
      insert into tag_statistics as s (tenant_id, tag, entries)
      select changed.tenant_id, u.tag, u.n from unnest(changed.tags, changed.counts) u (tag, n) order by u.tag
      on conflict (tenant_id, tag) do update set entries = s.entries + excluded.entries;
    end loop;
  else
    for changed in
      select e.tenant_id, t.tag collate "C" as tag, count(*) as n
        from removed e cross join lateral unnest(e.tags) t (tag) where e.readers is null group by 1, 2 order by 1, 2
    loop
      update tag_statistics s set entries = s.entries - changed.n
       where s.tenant_id = changed.tenant_id and s.tag = changed.tag;
    end loop;
  end if;
  return null;
end $$;
revoke all on function count_tags() from public;

create trigger tags_inserted after insert on entries
  referencing new table as added for each statement execute function count_tags();
create trigger tags_updated after update on entries
  referencing old table as removed new table as added for each statement execute function count_tags();
create trigger tags_deleted after delete on entries
  referencing old table as removed for each statement execute function count_tags();
