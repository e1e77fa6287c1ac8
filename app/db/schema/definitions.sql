-- The objects whose text keeps tenants apart, each with its definition; run with search_path = pg_catalog, so that all
-- names are complete. "owner" is the owner of `entries`. Objects of extensions are omitted. `place` is the shard of a
-- cluster to which an object belongs; its name and definition are then those of the table that it is part of, and a trigger
-- runs the function of which that of its group is a copy.

-- name: list_definitions
with ours as (
  select c.oid, c.relowner, format('%I.%I', n.nspname, coalesce(base.relname, c.relname)) as place,
         case when s.shard is not null then c.relname end as shard, substr(c.relname, length(base.relname) + 1) as suffix
    from pg_class c
    left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = c.oid
    left join pg_class base on base.oid = s.base
    join pg_namespace n on n.oid = c.relnamespace
    join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
   where c.relkind in ('r', 'p')
     and (coalesce(base.oid, c.oid) in (
            to_regclass('public.tenants'), to_regclass('public.embedding_models'), to_regclass('public.platform_audit'),
            to_regclass('public.revoked_platform_tokens'), to_regclass('public.tenant_slugs'), to_regclass('public.alembic_version'))
          or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
)
select 'function' as kind, p.oid::regprocedure::text as name, null as place,
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
select 'trigger', format('%I of %s', case when ours.shard is null then t.tgname else regexp_replace(t.tgname, ours.suffix || '$', '') end,
                         ours.place),
       ours.shard,
       case when ours.shard is null then pg_get_triggerdef(t.oid)
            else regexp_replace(replace(pg_get_triggerdef(t.oid), ours.suffix || ' ', ' '), '_\d{5,}\(([^()]*)\)$', '(\1)') end
  from pg_trigger t
  join ours on ours.oid = t.tgrelid
 where not t.tgisinternal and t.tgparentid = 0
union all
select 'foreign key',
       format('of %s: %s', ours.place,
              replace(replace(pg_get_constraintdef(k.oid), ' NOT VALID', ''),
                      coalesce('_' || substring(f.relname from '_(\d+)$') || '(', 'none'), '(')),
       ours.shard, ''
  from pg_constraint k
  join ours on ours.oid = k.conrelid
  left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = k.confrelid
  left join pg_class f on f.oid = s.shard
 where k.contype = 'f' and k.conparentid = 0
union all
select 'rights', format('of %s on %s', coalesce(quote_ident(r.rolname), 'public'), ours.place), ours.shard,
       string_agg(h.privilege, ', ' order by h.privilege)
  from ours
 cross join lateral (
   select a.grantee, a.privilege_type as privilege from pg_class c cross join lateral aclexplode(c.relacl) a where c.oid = ours.oid
   union all
   select a.grantee, format('%s (%I)', a.privilege_type, t.attname)
     from pg_attribute t cross join lateral aclexplode(t.attacl) a where t.attrelid = ours.oid and not t.attisdropped) h
  left join pg_roles r on r.oid = h.grantee
 where r.oid is null or r.rolname in ('kb_reader', 'kb_creator', 'kb_admin', 'kb_app', 'kb_keyword', 'kb_queue')
 group by r.rolname, ours.place, ours.shard
 order by 1, 2;
