-- A cluster of Citus: what each node needs so that the sessions of a tenant run on the node that holds the tenant.
--
-- A group is the shards of all tables that hold the same tenants; its number is that of its shard of `tenants`.

create schema if not exists shards;
grant usage on schema shards to kb_app, kb_queue;

create table if not exists shards.templates (
  place integer primary key,
  name text not null,
  owner text,
  definition text not null
);
comment on table shards.templates is
  'The functions that every group has copies of; @{name} stands for a table or a function of the group';
grant select (name) on shards.templates to kb_app;

create table if not exists shards.adopted (
  shard bigint primary key,
  place oid not null
);
comment on table shards.adopted is 'The groups that are complete on this node';
comment on column shards.adopted.place is 'The table of the shard: a shard that leaves and returns is another table';

-- The tables of a group, each with the name of its shard, and the reference tables.
create or replace function shards.names(p_shard bigint) returns table (name text, shard text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  select c.relname::text, c.relname || '_' || s.shardid
    from pg_dist_shard own
    join pg_dist_partition t on t.logicalrelid = own.logicalrelid
    join pg_dist_partition o on o.colocationid = t.colocationid or o.partmethod = 'n' and o.repmodel = 't'
    join pg_dist_shard s on s.logicalrelid = o.logicalrelid
                        and (s.shardminvalue = own.shardminvalue or o.partmethod = 'n')
    join pg_class c on c.oid = o.logicalrelid and c.relnamespace = 'public'::regnamespace
   where own.shardid = p_shard
$$;
revoke all on function shards.names(bigint) from public;
grant execute on function shards.names(bigint) to kb_app, kb_queue;

-- A text with other names. Postgres' own replace() has one.
create or replace function shards.rename(p_text text, p_names text[], p_others text[]) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp
as $$
begin
  for n in 1 .. cardinality(p_names) loop
    p_text := replace(p_text, p_names[n], p_others[n]);
  end loop;
  return p_text;
end $$;
revoke all on function shards.rename(text, text[], text[]) from public;
grant execute on function shards.rename(text, text[], text[]) to kb_app;

-- What differs in the shards of a group, each with the statement that corrects it: the restrictive policies are those of
-- the tables, whose condition for the tenant another policy has, and triggers run the group's copies of functions. Citus would plan the statements of others, connect to
-- nodes as the role of a caller, which may not log in, and refuse some.
create or replace function shards.differences(p_shard bigint) returns table (fault text, statement text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  with places as (
    select n.shard, to_regclass('public.' || n.name) as base, to_regclass('public.' || n.shard) as shard_oid
      from shards.names(p_shard) n
  ), names as materialized (
    -- As the catalog writes a call. Policies name no other table.
    select array_agg(t.name || '(') as plain, array_agg(t.name || '_' || p_shard || '(') as others from shards.templates t
  )
  select format('policy %I on %I is missing or allows more than it should', p.polname, l.shard),
         case when f.oid is null then '' else format('drop policy %I on public.%I; ', p.polname, l.shard) end
           || format('create policy %I on public.%I as restrictive for %s to %s', p.polname, l.shard,
                     case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
                     (select string_agg(r.role::regrole::text, ', ') from unnest(p.polroles) r (role)))
           || coalesce(' using (' || x.condition || ')', '') || coalesce(' with check (' || x.checked || ')', '')
    from places l
    join pg_policy p on p.polrelid = l.base and not p.polpermissive
    left join pg_policy f on f.polrelid = l.shard_oid and f.polname = p.polname
   cross join names m
   cross join lateral (select '^\(\(tenant_id = public\.current_tenant\(\)\) AND (.*)\)$' as of_tenant) o
   cross join lateral (
     select shards.rename(regexp_replace(pg_get_expr(p.polqual, p.polrelid), o.of_tenant, '\1'), m.plain, m.others) as condition,
            shards.rename(regexp_replace(pg_get_expr(p.polwithcheck, p.polrelid), o.of_tenant, '\1'), m.plain, m.others) as checked) x
   where l.shard_oid is not null
     and (f.polpermissive, f.polcmd, f.polroles, pg_get_expr(f.polqual, f.polrelid), pg_get_expr(f.polwithcheck, f.polrelid))
         is distinct from (false, p.polcmd, p.polroles, x.condition, x.checked)
  union all
  select format('trigger %I on %I does not run the function of its group', t.tgname, l.shard),
         replace(replace(pg_get_triggerdef(t.oid), 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'),
                 format('EXECUTE FUNCTION %s.%s(', n.nspname, p.proname), format('EXECUTE FUNCTION %s(', x.wanted))
    from places l
    join pg_trigger t on t.tgrelid = l.shard_oid and not t.tgisinternal
    join pg_proc p on p.oid = t.tgfoid
    join pg_namespace n on n.oid = p.pronamespace
   cross join lateral (select n.nspname || '.' || regexp_replace(p.proname, '_\d{5,}$', '') as plain) y
   cross join lateral (select y.plain || case when exists (select from shards.templates m where m.name = y.plain)
                                              then '_' || p_shard else '' end as wanted) x
   where n.nspname || '.' || p.proname <> x.wanted
$$;
revoke all on function shards.differences(bigint) from public;
grant execute on function shards.differences(bigint) to kb_app;

-- Begins a transaction in a group. The lock is the one that Citus itself takes for a write: the end of a move waits for
-- this transaction, and a transaction that begins in the last moment of a move waits for its end, and then finds the
-- group elsewhere. It does not wait for long: who waits has a connection that other tenants of the node need. KB001: the
-- group is not on this node (any more), or was divided into others. KB002: it has just come, and must be adopted first.
-- KB003: a move holds it at the moment.
create or replace function shards.enter(p_shard bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '200ms'
as $$
begin
  begin
    perform lock_shard_metadata(5, array[p_shard]);
  exception
    when internal_error then
      raise exception 'group % no longer exists', p_shard using errcode = 'KB001';
    when lock_not_available then
      raise exception 'group % is being moved', p_shard using errcode = 'KB003';
  end;
  if not exists (select from pg_dist_placement p join pg_dist_local_group g on g.groupid = p.groupid
                  where p.shardid = p_shard and p.shardstate = 1) then
    raise exception 'group % is not on this node', p_shard using errcode = 'KB001';
  end if;
  if not exists (select from shards.adopted a
                  where a.shard = p_shard and a.place = to_regclass('public.tenants_' || p_shard)) then
    raise exception 'group % is not adopted yet', p_shard using errcode = 'KB002';
  end if;
end $$;
revoke all on function shards.enter(bigint) from public;
grant execute on function shards.enter(bigint) to kb_app, kb_queue;

-- Completes a group on this node: its copies of functions, its triggers, which run them, and its policies. In those of a
-- tenant, Citus does not accept the sub-select that Postgres evaluates once instead of once for each row. From then on, they
-- apply to the owner of the tables too: Citus wrote the rows of the group as the owner when it came. Copies that exist are
-- as the templates are: who changes these drops the copies, except those that triggers need, which are replaced.
create or replace function shards.adopt(p_shard bigint) returns void
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set check_function_bodies = off
set citus.enable_ddl_propagation = off
as $$
declare
  template record;
  table_of record;
  difference record;
  definition text;
  made regprocedure;
begin
  if exists (select from shards.adopted a where a.shard = p_shard and a.place = to_regclass('public.tenants_' || p_shard)) then
    return;
  end if;
  begin
    perform lock_shard_metadata(5, array[p_shard]);
  exception when internal_error then
    raise exception 'group % no longer exists', p_shard using errcode = 'KB001';
  end;
  if not exists (select from pg_dist_placement p join pg_dist_local_group g on g.groupid = p.groupid
                  where p.shardid = p_shard and p.shardstate = 1)
     or not exists (select from pg_dist_shard s where s.shardid = p_shard and s.logicalrelid = 'public.tenants'::regclass) then
    raise exception 'group % is not on this node', p_shard using errcode = 'KB001';
  end if;
  -- One at a time: the rights on schemas are rows that two transactions cannot change together.
  perform pg_advisory_xact_lock(hashtextextended('shards.adopt', 0));
  if exists (select from shards.adopted a where a.shard = p_shard and a.place = to_regclass('public.tenants_' || p_shard)) then
    return;
  end if;
  for template in select t.name, t.owner, t.definition from shards.templates t order by t.place loop
    continue when exists (select from pg_proc p where p.oid = to_regproc(template.name || '_' || p_shard)
                                                  and p.prorettype <> 'trigger'::regtype);
    definition := template.definition;
    for table_of in select n.name, n.shard from shards.names(p_shard) n loop
      definition := replace(definition, '@{' || table_of.name || '}', table_of.shard);
    end loop;
    execute regexp_replace(definition, '@\{([\w.]+)\}', '\1_' || p_shard, 'g');
    if template.owner is not null then
      made := to_regproc(template.name || '_' || p_shard)::oid;
      execute format('grant create on schema %1$I to %2$I', split_part(template.name, '.', 1), template.owner);
      execute format('alter function %s owner to %I', made, template.owner);
      execute format('revoke create on schema %1$I from %2$I', split_part(template.name, '.', 1), template.owner);
    end if;
  end loop;
  for table_of in
    select p.polname, p.polrelid::regclass as place, n.name
      from shards.names(p_shard) n
      join pg_policy p on p.polrelid = to_regclass('public.' || n.shard) and p.polname in ('tenant_isolation', 'own_tenant')
  loop
    if table_of.polname = 'tenant_isolation' then
      execute format('alter table %s force row level security', table_of.place);
    end if;
    execute format('alter policy %I on %s using (%3$I = (select public.current_tenant())) with check (%3$I = (select public.current_tenant()))',
                   table_of.polname, table_of.place, case table_of.name when 'tenants' then 'id' else 'tenant_id' end);
  end loop;
  for difference in select d.statement from shards.differences(p_shard) d loop
    execute difference.statement;
  end loop;
  insert into shards.adopted as a (shard, place) values (p_shard, to_regclass('public.tenants_' || p_shard))
  on conflict (shard) do update set place = excluded.place;
end $$;
revoke all on function shards.adopt(bigint) from public;
grant execute on function shards.adopt(bigint) to kb_app, kb_queue;

-- The groups on this node, in a random order.
create or replace function shards.local_groups() returns setof bigint
language sql volatile set search_path = pg_catalog, pg_temp
as $$
  select p.shardid
    from pg_dist_placement p
    join pg_dist_local_group g on g.groupid = p.groupid
    join pg_dist_shard s on s.shardid = p.shardid and s.logicalrelid = to_regclass('public.tenants')
   where p.shardstate = 1
   order by random()
$$;
revoke all on function shards.local_groups() from public;
grant execute on function shards.local_groups() to kb_app, kb_queue;

grant create on schema shards to kb_queue;
set local role kb_queue;

-- queue.claim_job for the tenants of this node: the groups take turns at random.
create or replace function shards.claim_job(p_kinds text[], p_lease interval)
returns table (tenant_id uuid, id uuid, kind text, subject text, attempts integer, fence bigint, lost integer,
               postponed integer)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare place bigint;
begin
  for place in select shards.local_groups() loop
    begin
      perform shards.adopt(place);
      perform shards.enter(place);
    exception when sqlstate 'KB001' or sqlstate 'KB003' then
      continue;
    end;
    return query execute format('select * from queue.claim_job_%s($1, $2)', place) using p_kinds, p_lease;
    if found then
      return;
    end if;
  end loop;
end $$;
revoke all on function shards.claim_job(text[], interval) from public;
grant execute on function shards.claim_job(text[], interval) to kb_app;

-- queue.next_due for the tenants of this node; a group that is being moved is looked at again after a second.
create or replace function shards.next_due(p_kinds text[]) returns double precision
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare
  place bigint;
  due double precision;
  earliest double precision;
begin
  for place in select shards.local_groups() loop
    begin
      perform shards.adopt(place);
      perform shards.enter(place);
      execute format('select queue.next_due_%s($1)', place) into due using p_kinds;
    exception when sqlstate 'KB001' or sqlstate 'KB003' then
      due := 1;
    end;
    earliest := least(earliest, due);
  end loop;
  return earliest;
end $$;
revoke all on function shards.next_due(text[]) from public;
grant execute on function shards.next_due(text[]) to kb_app;

-- queue.count_jobs for the tenants of this node; p_most applies to each group.
create or replace function shards.count_jobs(p_most integer)
returns table (kind text, waiting bigint, scheduled bigint, running bigint, oldest_seconds double precision)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
as $$
declare place bigint;
begin
  for place in select shards.local_groups() loop
    begin
      perform shards.adopt(place);
      perform shards.enter(place);
    exception when sqlstate 'KB001' or sqlstate 'KB003' then
      continue;
    end;
    return query execute format('select * from queue.count_jobs_%s($1)', place) using p_most;
  end loop;
end $$;
revoke all on function shards.count_jobs(integer) from public;
grant execute on function shards.count_jobs(integer) to kb_app;

reset role;
revoke create on schema shards from kb_queue;
