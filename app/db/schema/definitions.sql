-- The objects whose text keeps tenants apart, each with its definition; run with search_path = pg_catalog, so that all
-- names are complete. "owner" is the owner of `entries`. Objects of extensions are omitted.

-- name: list_definitions
with ours as (
  select c.oid, c.relowner, format('%I.%I', n.nspname, c.relname) as place
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
   where c.relkind in ('r', 'p')
     and (c.oid in (to_regclass('public.tenants'), to_regclass('public.embedding_models'),
                    to_regclass('public.platform_audit'), to_regclass('public.revoked_platform_tokens'),
                    to_regclass('public.alembic_version'), to_regclass('public.tenant_slugs'))
          or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
)
select 'function' as kind, p.oid::regprocedure::text as name,
       concat_ws(E'\n', p.prokind, p.prosecdef, p.proleakproof, p.proisstrict, p.proretset, p.provolatile, p.proparallel,
                 l.lanname, pg_get_function_result(p.oid), pg_get_function_arguments(p.oid), p.proconfig,
                 case when p.proowner = entries.relowner then 'owner' else p.proowner::regrole::text end,
                 p.prosrc, pg_get_function_sqlbody(p.oid)) as definition
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace and n.nspname in ('public', 'tenancy', 'keyword', 'queue', 'shards')
  join pg_language l on l.oid = p.prolang
  left join pg_class entries on entries.oid = to_regclass('public.entries')
 where not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
union all
select 'trigger', format('%I of %s', t.tgname, ours.place), pg_get_triggerdef(t.oid)
  from pg_trigger t
  join ours on ours.oid = t.tgrelid
 where not t.tgisinternal and t.tgparentid = 0
union all
select 'foreign key', format('of %s: %s', ours.place, replace(pg_get_constraintdef(k.oid), ' NOT VALID', '')), ''
  from pg_constraint k
  join ours on ours.oid = k.conrelid
 where k.contype = 'f' and k.conparentid = 0
 order by 1, 2;
