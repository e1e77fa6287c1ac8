-- What the planner knows of partitioned tables. Autovacuum analyses a partition some time after it has changed, and never
-- the parent, although joins are planned with the parent's statistics. A cluster of Citus has no partitions.

-- The tables whose statistics are missing or old, parents last. A partition counts as changed by its rows and, since rows
-- are counted late and not at all after a crash, by its size; a parent by its partitions that were analysed since.
create or replace function tenancy.outdated_statistics() returns table (place text, is_missing boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  with parts as (
    select p.oid as parent, c.oid, greatest(c.reltuples, 0) as rows, c.relpages as pages_then,
           pg_relation_size(c.oid) / current_setting('block_size')::bigint as pages,
           pg_stat_get_mod_since_analyze(c.oid) as changes,
           greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) as at
      from pg_class p
     cross join lateral pg_partition_tree(p.oid) t
      join pg_class c on c.oid = t.relid
     where p.relnamespace = 'public'::regnamespace and p.relkind = 'p' and not p.relispartition and t.isleaf
  ), judged as (
    select p.*, p.pages > 0 and (p.at is null or p.changes > 200 + 0.2 * p.rows or p.pages > 8 + 1.2 * p.pages_then) as is_old
      from parts p
  ), parents as (
    select j.parent, c.reltuples < 0 or pg_stat_get_last_analyze_time(j.parent) is null as is_missing,
           bool_or(j.is_old) or abs(sum(j.rows) - greatest(c.reltuples, 0)) > 200 + 0.2 * sum(j.rows)
             or sum(j.rows) filter (where j.at > pg_stat_get_last_analyze_time(j.parent)) > 200 + 0.2 * sum(j.rows) as is_old
      from judged j join pg_class c on c.oid = j.parent
     group by j.parent, c.reltuples having sum(j.pages) > 0
  )
  select format('public.%I', c.relname), o.is_missing
    from (select j.oid, j.at is null as is_missing, false as is_parent from judged j where j.is_old
          union all
          select p.parent, p.is_missing, true from parents p where p.is_missing or p.is_old) o
    join pg_class c on c.oid = o.oid
   order by o.is_parent, c.relname
$$;
revoke all on function tenancy.outdated_statistics() from public;
grant execute on function tenancy.outdated_statistics() to kb_app;

-- Analyses one of these tables, unless it is locked. Before Postgres 18, a parent is analysed with its partitions.
create or replace function tenancy.analyze_table(p_place text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  is_parent boolean;
begin
  select c.relkind = 'p' into is_parent
    from tenancy.outdated_statistics() o join pg_class c on c.oid = to_regclass(o.place)
   where o.place = p_place;
  if is_parent is null then
    return;  -- Another worker was faster.
  end if;
  execute format('analyze (skip_locked) %s %s',
                 case when is_parent and current_setting('server_version_num')::integer >= 180000 then 'only' end,
                 to_regclass(p_place));
end $$;
revoke all on function tenancy.analyze_table(text) from public;
grant execute on function tenancy.analyze_table(text) to kb_app;
