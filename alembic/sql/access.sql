-- Permissions inside a tenant: what has the readers and writers of something else. access_policies.sql compares them.

-- Whether a tenant uses permissions. A row stays when the last readers are removed.
create table permissions (
  tenant_id uuid primary key references tenants on delete cascade,
  since timestamptz not null default clock_timestamp()
);
comment on table permissions is
  'Tenants with entries, assets or sources that not all callers may read or change, now or before';

-- Whether the transaction sees all rows of its tenant: the service itself, or there is nothing to hide.
create or replace function sees_everything() returns boolean language plpgsql stable parallel safe as $$
begin
  return '*' = any (public.current_principals())
      or not exists (select 1 from public.permissions p where p.tenant_id = public.current_tenant());
end $$;
revoke all on function sees_everything() from public;
grant execute on function sees_everything() to kb_reader;

create or replace function note_permissions() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into permissions (tenant_id) values (new.tenant_id) on conflict do nothing;
  return null;
end $$;
revoke all on function note_permissions() from public;

-- Whether the transaction may read what belongs to an entry. The plan is kept: the planner would look at all partitions.
create or replace function may_read(p_tenant uuid, p_entry uuid) returns boolean language plpgsql stable parallel safe
set plan_cache_mode = force_generic_plan as $$
begin
  return exists (select from public.entries e where e.tenant_id = p_tenant and e.id = p_entry);
end $$;
revoke all on function may_read(uuid, uuid) from public;
grant execute on function may_read(uuid, uuid) to kb_reader;

-- Whether the transaction may change what belongs to an entry: its vectors and former versions.
create or replace function may_change(p_tenant uuid, p_entry uuid) returns boolean language plpgsql stable parallel safe
set plan_cache_mode = force_generic_plan as $$
begin
  return not exists (select from public.entries e
                      where e.tenant_id = p_tenant and e.id = p_entry and e.writers is not null
                        and not public.audience(e.writers) && public.current_principals());
end $$;
revoke all on function may_change(uuid, uuid) from public;
grant execute on function may_change(uuid, uuid) to kb_reader;

-- The sources that the transaction may see, and those of them that it may change.
create or replace function visible_sources() returns text[] language plpgsql stable parallel safe as $$
begin
  return array(select s.name from public.sources s where s.tenant_id = public.current_tenant());
end $$;
revoke all on function visible_sources() from public;
grant execute on function visible_sources() to kb_reader;

create or replace function changeable_sources() returns text[] language plpgsql stable parallel safe as $$
begin
  return array(select s.name from public.sources s
                where s.tenant_id = public.current_tenant()
                  and (s.writers is null or public.audience(s.writers) && public.current_principals()));
end $$;
revoke all on function changeable_sources() from public;
grant execute on function changeable_sources() to kb_reader;

-- A chunk has the readers and writers of its asset, and vectors the readers of their entry. The service inserts rows with
-- these lists; rows with others get them at the end of the statement, and rows whose lists change get them at once. The
-- lock, which the foreign key takes anyway, makes a change of the lists wait, or reveals it. What does not exist, and what
-- the writer may not see, give the same error.
create or replace function inherit_added() returns trigger language plpgsql
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  writer uuid;
  missing boolean;
  differs boolean;
  place text;
  key text;
  owner text;
begin
  if tg_argv[0] = 'asset' then
    for writer in select distinct a.tenant_id from added a where a.asset_id is not null order by 1 loop
      with found as materialized (
        select s.id, s.readers, s.writers from assets s
         where s.tenant_id = writer and s.id = any (array(select distinct a.asset_id from added a where a.tenant_id = writer))
         order by s.id for key share
      )
      select bool_or(f.id is null), bool_or((a.readers, a.writers) is distinct from (f.readers, f.writers))
        into missing, differs
        from added a left join found f on f.id = a.asset_id
       where a.tenant_id = writer and a.asset_id is not null;
      exit when missing;
      if differs then
        update entries e set readers = s.readers, writers = s.writers
          from assets s
         where e.tenant_id = writer and s.tenant_id = writer and s.id = e.asset_id
           and e.id = any (array(select a.id from added a where a.tenant_id = writer and a.asset_id is not null))
           and (e.readers, e.writers) is distinct from (s.readers, s.writers);
      end if;
    end loop;
  else
    for writer in select distinct a.tenant_id from added a order by 1 loop
      with found as materialized (
        select e.id, e.readers from entries e
         where e.tenant_id = writer and e.id = any (array(select distinct a.entry_id from added a where a.tenant_id = writer))
         order by e.id for key share
      )
      select bool_or(f.id is null), bool_or(a.readers is distinct from f.readers) into missing, differs
        from added a left join found f on f.id = a.entry_id
       where a.tenant_id = writer;
      exit when missing;
      if differs then
        update embeddings k set readers = e.readers
          from entries e
         where k.tenant_id = writer and e.tenant_id = writer and e.id = k.entry_id and k.readers is distinct from e.readers
           and k.entry_id = any (array(select a.entry_id from added a where a.tenant_id = writer));
      end if;
    end loop;
  end if;
  if missing then
    -- As the foreign key reports what does not exist.
    if tg_argv[0] = 'asset' then
      select e.tableoid::regclass::text into place from entries e join added a on a.tenant_id = writer and a.id = e.id
       where e.tenant_id = writer limit 1;
    else
      select k.tableoid::regclass::text into place from embeddings k join added a on a.tenant_id = writer and a.entry_id = k.entry_id
       where k.tenant_id = writer limit 1;
    end if;
    select k.conname, k.confrelid::regclass::text into key, owner from pg_constraint k
     where k.conrelid = tg_relid and k.contype = 'f' and k.conname ~ format('_tenant_id_%s_id_fkey(_\d+)?$', tg_argv[0]);
    raise exception 'insert or update on table "%" violates foreign key constraint "%"', place, key
      using errcode = 'foreign_key_violation', detail = format('Key is not present in table "%s".', owner), schema = 'public',
            table = place, constraint = key;
  end if;
  return null;
end $$;
revoke all on function inherit_added() from public;

create or replace function inherit_readers() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_argv[0] = 'asset' then
    select a.readers, a.writers into new.readers, new.writers
      from assets a where a.tenant_id = new.tenant_id and a.id = new.asset_id for key share;
  else
    select e.readers into new.readers from entries e where e.tenant_id = new.tenant_id and e.id = new.entry_id for key share;
  end if;
  -- A row of another tenant is refused by its policy.
  if not found and new.tenant_id = current_tenant() then
    raise exception 'there is no such %', tg_argv[0] using errcode = 'foreign_key_violation';
  end if;
  return new;
end $$;
revoke all on function inherit_readers() from public;

-- A change of readers or writers holds for chunks, vectors and former versions from the same commit on. The lock waits for writers that
-- have just read the former readers, and lets others wait.
create or replace function pass_on_readers() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare own constant text := begin_as_service();
begin
  if tg_argv[0] = 'asset' then
    perform from assets a where a.tenant_id = new.tenant_id and a.id = new.id for update;
    update entries e set readers = new.readers, writers = new.writers
     where e.tenant_id = new.tenant_id and e.asset_id = new.id;
    update former_embeddings k set readers = new.readers
      from (select distinct v.id from former_entries v where v.tenant_id = new.tenant_id and v.asset_id = new.id) v
     where k.tenant_id = new.tenant_id and k.entry_id = v.id;
    update former_entries v set readers = new.readers where v.tenant_id = new.tenant_id and v.asset_id = new.id;
  else
    perform from entries e where e.tenant_id = new.tenant_id and e.id = new.id for update;
    update embeddings k set readers = new.readers where k.tenant_id = new.tenant_id and k.entry_id = new.id;
    update former_embeddings k set readers = new.readers where k.tenant_id = new.tenant_id and k.entry_id = new.id;
    update former_entries v set readers = new.readers where v.tenant_id = new.tenant_id and v.id = new.id;
  end if;
  perform set_config('app.current_principals', own, true);
  return null;
end $$;
revoke all on function pass_on_readers() from public;

-- An entry links only to entries that all its own readers may read: a link tells that its target exists.
create or replace function check_links() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare own constant text := begin_as_service();
begin
  perform from entries t
    where t.tenant_id = new.tenant_id and t.id = any (new.source_ids || new.parent_id || new.superseded_by_id) for key share;
  if exists (select from entries t
              where t.tenant_id = new.tenant_id and t.id <> new.id
                and t.id = any (new.source_ids || new.parent_id || new.superseded_by_id)
                and t.readers is not null and (new.readers is null or not new.readers <@ t.readers)) then
    raise exception 'an entry links to one that not all of its readers may read'
      using errcode = 'check_violation', constraint = 'links_within_readers';
  end if;
  perform set_config('app.current_principals', own, true);
  return new;
end $$;
revoke all on function check_links() from public;

-- When fewer may read an entry, links to it end in entries that others may read, as they do when it is deleted.
create or replace function end_links() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare own constant text := begin_as_service();
begin
  update entries e
     set parent_id = nullif(e.parent_id, new.id), superseded_by_id = nullif(e.superseded_by_id, new.id),
         source_ids = array_remove(e.source_ids, new.id)
   where e.tenant_id = new.tenant_id and e.id <> new.id
     and (e.parent_id = new.id or e.superseded_by_id = new.id or e.source_ids @> array[new.id])
     and (e.readers is null or not e.readers <@ new.readers);
  update former_entries v
     set parent_id = nullif(v.parent_id, new.id), superseded_by_id = nullif(v.superseded_by_id, new.id),
         source_ids = array_remove(v.source_ids, new.id)
   where v.tenant_id = new.tenant_id and v.id <> new.id
     and (v.parent_id = new.id or v.superseded_by_id = new.id or v.source_ids @> array[new.id])
     and (v.readers is null or not v.readers <@ new.readers);
  perform set_config('app.current_principals', own, true);
  return null;
end $$;
revoke all on function end_links() from public;

create trigger inherit_added after insert on entries
  referencing new table as added for each statement execute function inherit_added('asset');
create trigger inherit_added after insert on embeddings
  referencing new table as added for each statement execute function inherit_added('entry');
create trigger inherit_readers before update of asset_id, readers, writers on entries for each row
  when (new.asset_id is not null) execute function inherit_readers('asset');
create trigger inherit_readers before update of entry_id, readers on embeddings for each row
  execute function inherit_readers('entry');
create trigger pass_on_readers after update of readers on entries for each row
  when (old.readers is distinct from new.readers) execute function pass_on_readers('entry');
create trigger pass_on_readers after update of readers, writers on assets for each row
  when (old.readers is distinct from new.readers or old.writers is distinct from new.writers)
  execute function pass_on_readers('asset');
create trigger check_links before insert or update of parent_id, superseded_by_id, source_ids, readers on entries for each row
  when (new.parent_id is not null or new.superseded_by_id is not null or new.source_ids <> '{}') execute function check_links();
create trigger end_links after update of readers on entries for each row
  when (new.readers is not null and old.readers is distinct from new.readers) execute function end_links();
create trigger note_permissions after insert or update of readers, writers on entries for each row
  when (new.readers is not null or new.writers is not null) execute function note_permissions();
create trigger note_permissions after insert or update of readers, writers on assets for each row
  when (new.readers is not null or new.writers is not null) execute function note_permissions();
create trigger note_permissions after insert or update of readers, writers on sources for each row
  when (new.readers is not null or new.writers is not null) execute function note_permissions();
create trigger note_permissions after insert or update of readers on source_items for each row
  when (new.readers is not null) execute function note_permissions();
