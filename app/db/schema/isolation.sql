-- Each statement looks for one way in which tenants would not be isolated, as the login role and only in the catalog.
-- A row contains a fault and its remedy. "Ours" are the tables that the owner of `entries` owns, and other objects that
-- the login role may use; a host application's own tables are not checked. On a node of a Citus cluster, `shards` are its
-- shards, and `bases` the tables that these are parts of. `unforced` may leave their owner free of policies: tables
-- without rows of their own, and shards that no session uses. Citus could not copy changes of rows to others.

-- name: row_security
select format('table %s has row-level security %s', c.oid::regclass,
              case when c.relrowsecurity then 'that its owner is free of' else 'switched off' end) as fault,
       format('alter table %s enable row level security, force row level security', c.oid::regclass) as remedy
  from pg_class c
  join pg_class entries on entries.oid = to_regclass('public.entries')
  left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = c.oid
 where c.relkind in ('r', 'p') and c.relpersistence <> 't'
   and (c.relowner = entries.relowner or has_table_privilege(c.oid, 'select, insert, update, delete, truncate'))
   and case when coalesce(s.base, c.oid) = to_regclass('public.tenants') then not c.relrowsecurity
            else not (c.relrowsecurity and (c.relforcerowsecurity or c.oid = any (:unforced::oid[])))
                 and exists (select from pg_attribute a
                              where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped) end
 order by 1;

-- name: missing_policies
select format('table %s has no policy for kb_reader', c.oid::regclass) as fault,
       'create the policy again: as the owner of the tables, run alembic/sql/tenant_isolation.sql (tenants.sql for tenants)' as remedy
  from pg_class c
  join pg_class entries on entries.oid = to_regclass('public.entries')
  left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = c.oid
 where c.relkind in ('r', 'p') and not c.relispartition and c.relowner = entries.relowner
   and (coalesce(s.base, c.oid) = to_regclass('public.tenants')
        or exists (select from pg_attribute a
                    where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
   and not exists (select from pg_policy p
                    where p.polrelid = c.oid and p.polpermissive and to_regrole('kb_reader')::oid = any (p.polroles))
 order by 1;

-- name: shared_tables
-- Tables without a tenant, and foreign tables, have no policy: on them the service has only these rights. On platform_audit it has no rights,
-- which the rule `grants` checks.
with allowed (place, privilege) as (
  values ('public.alembic_version', 'SELECT'),
         ('public.embedding_models', 'SELECT'), ('public.embedding_models', 'UPDATE (paused_until)'),
         ('shards.templates', 'SELECT (name)')
), relations as (
  select c.oid, c.oid::regclass as name, quote_ident(n.nspname) || '.' || quote_ident(base.relname) as place
    from pg_class c
    left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = c.oid
    join pg_class base on base.oid = coalesce(s.base, c.oid)
    join pg_namespace n on n.oid = c.relnamespace
    join pg_class entries on entries.oid = to_regclass('public.entries')
   where c.relkind in ('r', 'p', 'f') and c.relpersistence <> 't'
     and (c.relowner = entries.relowner or c.relkind = 'f' or n.nspname in ('public', 'tenancy', 'keyword', 'queue', 'shards'))
     and (n.nspname, base.relname) not in (('public', 'tenants'), ('public', 'platform_audit'))
     and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
     and (c.relkind = 'f' or not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id'
                                                                     and not a.attisdropped))
), roles as (
  select oid from pg_roles where rolname in ('kb_app', current_user)
), held as (
  select r.name, r.place, x.privilege
    from relations r
   cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) x (privilege)
   where exists (select from roles where has_table_privilege(roles.oid, r.oid, x.privilege))
  union all
  select r.name, r.place, x.privilege || ' (' || quote_ident(a.attname) || ')'
    from relations r
    join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
   cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) x (privilege)
   where exists (select from roles where has_column_privilege(roles.oid, r.oid, a.attnum, x.privilege)
                                     and not has_table_privilege(roles.oid, r.oid, x.privilege))
)
select format('the service may %s on %s, where no policy keeps tenants apart', privilege, name) as fault,
       format('revoke %s on %s from kb_app, and from the service''s role', privilege, name) as remedy
  from held
 where (place, privilege) not in (table allowed)
 order by 1;

-- name: wide_policies
-- A policy either compares the tenant, for the application and the owner of the tables only, or is one of the three by
-- which the keyword functions and the queue read across tenants. A restrictive policy only narrows another one. Citus
-- accepts no sub-select: without it, the condition holds too, and takes longer. It copies restrictive policies to new shards
-- as permissive ones, which show no more if they name the tenant, too.
select format('policy %s on %s shows rows of other tenants', quote_ident(p.polname), c.oid::regclass) as fault,
       format('drop policy %I on %s', p.polname, c.oid::regclass) as remedy
  from pg_policy p
  join pg_class c on c.oid = p.polrelid
  join pg_class entries on entries.oid = to_regclass('public.entries')
  left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = c.oid
 cross join lateral (
   select coalesce(s.base, c.oid) as base, format('(%s = ( SELECT current_tenant() AS current_tenant))', k.key) as own,
          format('(%s = current_tenant())', k.key) as unwrapped, format('((%s = current_tenant()) AND ', k.key) as narrowed,
          replace(pg_get_expr(p.polqual, p.polrelid), 'public.', '') as found,
          replace(pg_get_expr(p.polwithcheck, p.polrelid), 'public.', '') as found_check
     from (values (case when coalesce(s.base, c.oid) = to_regclass('public.tenants') then 'id' else 'tenant_id' end)) k (key)) o
 cross join lateral (
   select case when :distributed and (o.found = o.unwrapped or starts_with(o.found, o.narrowed)) then o.own else o.found end as condition,
          case when :distributed and (o.found_check = o.unwrapped or starts_with(o.found_check, o.narrowed)) then o.own
               else o.found_check end as checked) x
 where p.polpermissive
   and (c.relowner = entries.relowner
        or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')
           and has_table_privilege(c.oid, 'select, insert, update, delete'))
   and not (p.polroles <@ array[to_regrole('kb_reader')::oid, c.relowner]
            and coalesce(x.condition, o.own) = o.own and coalesce(x.checked, o.own) = o.own
            and (p.polcmd in ('r', 'd') or x.checked is not null) and (p.polcmd = 'a' or x.condition is not null))
   and not (o.base in (to_regclass('public.entries'), to_regclass('public.former_entries')) and p.polname = 'keyword_search' and p.polcmd = 'r'
            and p.polroles = array[to_regrole('kb_keyword')::oid])
   and not (o.base = to_regclass('public.jobs') and (p.polname, p.polcmd) in (('queue_select', 'r'), ('queue_update', 'w'))
            and p.polroles = array[to_regrole('kb_queue')::oid])
 order by 1;

-- name: keys
-- Unique indexes and foreign keys see all rows: one that does not start with the tenant leaks or links across tenants.
select format('unique index %s does not start with tenant_id', i.indexrelid::regclass) as fault,
       format('drop the index or constraint %s', i.indexrelid::regclass) as remedy
  from pg_index i
  join pg_class c on c.oid = i.indrelid
  join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
  join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id' and not t.attisdropped
 where (i.indisunique or i.indisexclusion) and i.indkey[0] <> t.attnum
union all
select format('foreign key %s of %s does not start with tenant_id', quote_ident(k.conname), k.conrelid::regclass),
       format('alter table %s drop constraint %I', k.conrelid::regclass, k.conname)
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
  join pg_class f on f.oid = k.confrelid
  left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = f.oid
  join pg_class entries on entries.oid = to_regclass('public.entries')
  left join pg_attribute t on t.attrelid = k.conrelid and t.attname = 'tenant_id' and not t.attisdropped
  left join pg_attribute r on r.attrelid = k.confrelid and r.attname = 'tenant_id' and not r.attisdropped
 where k.contype = 'f' and entries.relowner in (c.relowner, f.relowner)
   and case when r.attnum is not null then (k.conkey[1], k.confkey[1]) is distinct from (t.attnum, r.attnum)
            else coalesce(s.base, f.oid) = to_regclass('public.tenants') and k.conkey[1] is distinct from t.attnum end
 order by 1;

-- name: vector_indexes
-- In a graph of vectors that tenants share, one tenant changes the time and the completeness of another's searches. So an
-- index of vectors has the vectors of the one tenant and the one model that its name contains.
select format('index %s is not limited to the vectors of one tenant', i.indexrelid::regclass) as fault,
       format('drop index %s', i.indexrelid::regclass) as remedy
  from pg_index i
  join pg_class x on x.oid = i.indexrelid
  join pg_am m on m.oid = x.relam and m.amname in ('hnsw', 'ivfflat')
  join pg_class c on c.oid = i.indrelid
  join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
 cross join lateral regexp_match(x.relname, '^embeddings_hnsw_(\d+)_([0-9a-f]{32})$') n (parts)
 where pg_get_expr(i.indpred, i.indrelid) is distinct from
       format('((tenant_id = %L::uuid) AND (model_id = %s) AND in_index)', n.parts[2]::uuid, n.parts[1])
 order by 1;

-- name: views
-- A view reads with its owner's rights unless it is security_invoker; a materialised view stores rows itself. A
-- security_invoker view shows the service only rows that it may read anyway: rights and policies of the tables apply.
select format('view %s reads with its owner''s rights', c.oid::regclass) as fault,
       case c.relkind when 'm' then format('drop materialized view %s', c.oid::regclass)
                      else format('alter view %s set (security_invoker = true)', c.oid::regclass) end as remedy
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
  join pg_class entries on entries.oid = to_regclass('public.entries')
 where (c.relkind = 'm' or c.relkind = 'v' and not exists (
          select from unnest(c.reloptions) o where o in ('security_invoker=true', 'security_invoker=on', 'security_invoker=1')))
   and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
   and (c.relowner = entries.relowner or has_any_column_privilege(c.oid, 'select')
        or exists (select from pg_rewrite w
                     join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
                     join pg_class t on d.refclassid = 'pg_class'::regclass and t.oid = d.refobjid
                    where w.ev_class = c.oid and t.oid <> c.oid and t.relowner = entries.relowner))
 order by 1;

-- name: rules
select format('rule %s on %s rewrites statements', quote_ident(w.rulename), w.ev_class::regclass) as fault,
       format('drop rule %I on %s', w.rulename, w.ev_class::regclass) as remedy
  from pg_rewrite w
  join pg_class c on c.oid = w.ev_class and c.relkind in ('r', 'p')
  join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
 order by 1;

-- name: disabled_triggers
-- Triggers also enforce the foreign keys.
select format('trigger %s on %s %s', quote_ident(t.tgname), t.tgrelid::regclass,
              case t.tgenabled when 'D' then 'is disabled' else 'does not run as it was created' end) as fault,
       format('alter table %s enable trigger %I', t.tgrelid::regclass, t.tgname) as remedy
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
  join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
 where t.tgenabled <> 'O'
 order by 1;

-- name: definer_functions
-- The functions that run with their owner's rights are listed here, and their search path contains only schemas in which
-- no other role can create objects. Other such functions are a fault if one of our roles owns them or the service can
-- call them.
with known (name, owner) as (
  values ('tenancy.list_tenants', 'entries'), ('tenancy.create_tenant', 'entries'), ('tenancy.delete_tenant', 'entries'),
         ('tenancy.note_action', 'entries'), ('tenancy.change_limits', 'entries'), ('public.index_words', 'entries'),
         ('tenancy.list_revoked_tokens', 'entries'), ('tenancy.revoke_token', 'entries'),
         ('tenancy.create_vector_index', 'entries'), ('tenancy.drop_vector_index', 'entries'),
         ('tenancy.outdated_statistics', 'entries'), ('tenancy.analyze_table', 'entries'),
         ('tenancy.take_turns', 'entries'), ('tenancy.prune_audit', 'entries'), ('tenancy.pseudonymise_actor', 'entries'),
         ('keyword.search', 'kb_keyword'), ('keyword.matched_queries', 'kb_keyword'),
         ('keyword.filtered_ids', 'kb_keyword'), ('keyword.newest_ids', 'kb_keyword'),
         ('keyword.former_ids', 'kb_keyword'), ('keyword.tag_overlaps', 'kb_keyword'),
         ('keyword.derived_entries', 'kb_keyword'), ('keyword.matching_entries', 'kb_keyword'),
         ('keyword.entries_with_parts', 'kb_keyword'),
         ('queue.claim_job', 'kb_queue'), ('queue.next_due', 'kb_queue'), ('queue.count_jobs', 'kb_queue'),
         -- Those of the nodes of a cluster.
         ('shards.enter', 'entries'), ('shards.adopt', 'entries'), ('shards.claim_job', 'kb_queue'),
         ('shards.next_due', 'kb_queue'), ('shards.count_jobs', 'kb_queue')
), functions as (
  select p.oid, p.oid::regprocedure::text as signature, p.prosecdef, p.proconfig, p.proacl, p.proowner, k.name as known,
         k.owner as known_owner, entries.relowner as our_owner, e.path
    from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace and n.nspname not in ('pg_catalog', 'information_schema')
    join pg_class entries on entries.oid = to_regclass('public.entries')
    -- The groups of shards have copies, whose text the rule "definitions" compares.
    left join known k on k.name = n.nspname || '.' || case when :distributed then regexp_replace(p.proname, '_\d{5,}$', '')
                                                            else p.proname end
    left join lateral (select regexp_replace(c, '^search_path=', '') as path
                         from unnest(p.proconfig) c where c like 'search\_path=%') e on true
   where not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
     and p.prorettype <> 'event_trigger'::regtype
     and (p.proowner in (entries.relowner, to_regrole('kb_keyword'), to_regrole('kb_queue')) or k.name is not null
          or p.prosecdef and (n.nspname in ('public', 'tenancy', 'keyword', 'queue', 'shards')
                              or has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')))
)
select format('function %s runs with its owner''s rights and is not one of the known ones', signature) as fault,
       format('alter function %s security invoker', signature) as remedy
  from functions where prosecdef and known is null
union all
select format('function %s belongs to %s', signature, proowner::regrole),
       format('alter function %s owner to %I', signature,
              case known_owner when 'entries' then our_owner::regrole::text else known_owner end)
  from functions
 where known is not null and proowner <> case known_owner when 'entries' then our_owner else to_regrole(known_owner)::oid end
union all
select format('function %s has no fixed search_path that begins with pg_catalog and ends with pg_temp', signature),
       format('alter function %s set search_path = pg_catalog, public, pg_temp', signature)
  from functions
 where prosecdef and coalesce(path, '') !~ '^pg_catalog(, (public|tenancy|keyword|queue))*, pg_temp$'
union all
select format('function %s may be executed by public', signature),
       format('revoke execute on function %s from public', signature)
  from functions where has_function_privilege('public', oid, 'execute')
union all
-- What crosses tenants is for the service itself, not for a caller's path.
select format('function %s may be executed by %s', signature, r.rolname),
       format('revoke execute on function %s from %I', signature, r.rolname)
  from functions
  join pg_roles r on r.rolname in ('kb_reader', 'kb_creator', 'kb_admin')
 where known ~ '^(tenancy|queue|shards)\.' and not has_function_privilege('public', functions.oid, 'execute')
   and exists (select from aclexplode(proacl) a where a.grantee = r.oid)
 order by 1;

-- name: tenant_function
-- An immutable function would be folded into cached plans, which would then show rows of another tenant.
select 'function current_tenant() does not read app.current_tenant as the migrations made it' as fault,
       'create the function again as alembic/sql/tenants.sql does' as remedy
 where not exists (
   select from pg_proc p
    where p.oid = to_regprocedure('public.current_tenant()') and p.provolatile = 's' and not p.prosecdef
      and p.proconfig is null
      and pg_get_function_sqlbody(p.oid)
          = 'RETURN (NULLIF(current_setting(''app.current_tenant''::text, true), ''''::text))::uuid');
