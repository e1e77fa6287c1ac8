-- Each statement looks for one way in which roles, settings or the server give more than isolation allows. As in
-- isolation.sql, a row contains a fault and its remedy, and the login role runs them.

-- name: roles
-- The login role is a member of kb_app, which has the rights of kb_admin, which has those of kb_creator, which has those of
-- kb_reader. None of these roles is a member of another role.
with ours as (
  select * from pg_roles
   where rolname in ('kb_reader', 'kb_creator', 'kb_admin', 'kb_app', 'kb_keyword', 'kb_queue', current_user)
), allowed (member, role) as (
  select current_user::text, 'kb_app'
  union all
  values ('kb_app', 'kb_admin'), ('kb_admin', 'kb_creator'), ('kb_creator', 'kb_reader')
)
select format('role %s %s', r.rolname, x.power) as fault, format('alter role %I %s', r.rolname, x.remedy) as remedy
  from ours r
 cross join lateral (values (r.rolsuper, 'is a superuser', 'nosuperuser'),
                            (r.rolbypassrls, 'has BYPASSRLS', 'nobypassrls'),
                            (r.rolreplication, 'may replicate the whole server', 'noreplication'),
                            (r.rolcreaterole, 'may create roles', 'nocreaterole'),
                            (r.rolcreatedb, 'may create databases', 'nocreatedb'),
                            (r.rolcanlogin and r.rolname <> current_user, 'may log in', 'nologin')) x (held, power, remedy)
 where x.held
union all
select case when m.rolname = current_user then format('the service''s role is a member of %s', r.rolname)
            else format('role %s is a member of %s', m.rolname, r.rolname) end,
       format('revoke %I from %I', r.rolname, m.rolname)
  from ours m
  join pg_auth_members a on a.member = m.oid
  join pg_roles r on r.oid = a.roleid
 where (m.rolname, r.rolname) not in (table allowed) and not m.rolsuper
union all
select format('role %s is not a member of %s', d.member, d.role), 'run: knowledge migrate'
  from allowed d
 where to_regrole(quote_ident(d.member)) is not null and not pg_has_role(d.member, d.role, 'usage')
union all
select format('the service''s role may give the rights of %s to others', r.rolname),
       format('revoke admin option for %I from %I', r.rolname, current_user)
  from ours r
 where r.rolname like 'kb\_%' and r.rolname <> current_user and pg_has_role(r.oid, 'member with admin option')
   and not (select rolsuper from pg_roles where rolname = current_user)
union all
select 'the service''s role may create schemas in the database',
       format('revoke create on database %I from %I', current_database(), current_user)
 where has_database_privilege(current_database(), 'create')
 order by 1;

-- name: grants
-- TRUNCATE bypasses the policies, and the right to create a foreign key or trigger reveals the content of a table.
select format('%s may %s on %s', g.grantee, g.privilege, g.place) as fault,
       format('revoke %s on %s from %s', g.privilege, g.place, g.grantee) as remedy
  from (
    select c.oid::regclass::text as place, c.oid, a.grantee as role, c.relowner as owner,
           coalesce(quote_ident(r.rolname), 'public') as grantee, a.privilege_type as privilege
      from pg_class c
      join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
     cross join lateral aclexplode(c.relacl) a
      left join pg_roles r on r.oid = a.grantee
     where c.relkind in ('r', 'p', 'v', 'm')
    union all
    select format('%s (%I)', c.oid::regclass, t.attname), c.oid, a.grantee, c.relowner,
           coalesce(quote_ident(r.rolname), 'public'), a.privilege_type || ' (' || quote_ident(t.attname) || ')'
      from pg_class c
      join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
      join pg_attribute t on t.attrelid = c.oid and t.attacl is not null
     cross join lateral aclexplode(t.attacl) a
      left join pg_roles r on r.oid = a.grantee
  ) g
  left join unnest(:shards::oid[], :bases::oid[]) s (shard, base) on s.shard = g.oid
 where g.role <> g.owner
   and (g.privilege ~ '^(TRUNCATE|REFERENCES|TRIGGER)' or g.grantee = 'public'
        or g.grantee = 'kb_keyword' and not coalesce(g.privilege = 'SELECT' and coalesce(s.base, g.oid) = any (array[to_regclass('public.entries'), to_regclass('public.former_entries')]::oid[]), false)
        or g.grantee = 'kb_queue' and (case coalesce(s.base, g.oid) when to_regclass('public.jobs') then 'jobs '
                                            when to_regclass('public.embedding_models') then 'models ' else '' end || g.privilege) not in (
             'jobs SELECT', 'jobs UPDATE (state)', 'jobs UPDATE (attempts)', 'jobs UPDATE (fence)',
             'jobs UPDATE (lease_until)', 'jobs UPDATE (lost)', 'models SELECT (id)', 'models SELECT (paused_until)'))
union all
select format('the service may %s', format(x.what, c.oid::regclass)),
       'revoke that from kb_app, from the service''s role, or from the role that it is a member of'
  from (
    select to_regclass('public.' || p.place)::oid as oid, p.place
      from (values ('tenants'), ('platform_audit'), ('audit')) p (place)
    union all
    select s.shard, b.relname
      from unnest(:shards::oid[], :bases::oid[]) s (shard, base)
      join pg_class b on b.oid = s.base and b.oid in (to_regclass('public.tenants'), to_regclass('public.audit'))
  ) c
 cross join lateral (
   values ('tenants', 'insert into or delete from %s', has_table_privilege(c.oid, 'insert, delete')),
          ('tenants', 'update columns of %s other than name, settings and model_id', exists (
             select from pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                and a.attname not in ('name', 'settings', 'model_id') and has_column_privilege(a.attrelid, a.attnum, 'update'))),
          ('platform_audit', 'read or write %s', has_any_column_privilege(c.oid, 'select, insert, update')
                                                 or has_table_privilege(c.oid, 'delete')),
          ('audit', 'change the trail in %s', has_any_column_privilege(c.oid, 'update')
                                              or has_table_privilege(c.oid, 'delete'))) x (place, what, granted)
 where x.place = c.place and x.granted
 order by 1;

-- name: settings
-- Settings of a role or the database apply from the start of each connection. These switch off triggers and foreign keys,
-- choose a tenant or role, load code, or let names lead to other objects.
select format('%s is set for %s from the start', split_part(c, '=', 1),
              case s.setrole when 0 then 'every role' else s.setrole::regrole::text end) as fault,
       case s.setrole when 0 then format('alter database %I reset %s', current_database(), split_part(c, '=', 1))
                      else format('alter role %s reset %s', s.setrole::regrole, split_part(c, '=', 1)) end as remedy
  from pg_db_role_setting s
 cross join unnest(s.setconfig) c
 where s.setrole in (0, current_user::regrole)
   and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
   and (split_part(c, '=', 1) in ('app.current_tenant', 'session_replication_role', 'role', 'session_authorization',
                                  'session_preload_libraries', 'local_preload_libraries', 'dynamic_library_path')
        or split_part(c, '=', 1) = 'search_path' and c !~ '^search_path=("\$user", ?)?public(, ?pg_temp)?$')
union all
select format('session_replication_role is %s: triggers and foreign keys do not apply', current_setting('session_replication_role')),
       'remove it from the configuration of the server and from the options of DATABASE_URL'
 where current_setting('session_replication_role') <> 'origin'
union all
select format('the name %s leads to %s.%1$s', c.relname, (select o.relnamespace::regnamespace from pg_class o
                                                            where o.oid = to_regclass(quote_ident(c.relname)))),
       'remove the other object, or its schema from the search_path'
  from pg_class c
  join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
   and to_regclass(quote_ident(c.relname)) is distinct from c.oid::regclass
union all
select format('%s may set %s', case a.grantee when 0 then 'public' else a.grantee::regrole::text end, p.parname),
       format('revoke all on parameter %s from %s', p.parname, case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
  from pg_parameter_acl p
 cross join lateral aclexplode(p.paracl) a
 where a.grantee in (0, current_user::regrole, to_regrole('kb_reader'), to_regrole('kb_creator'), to_regrole('kb_admin'),
                     to_regrole('kb_app'))
 order by 1;

-- name: schemas
-- Definer functions look up names in these schemas: a role that can create objects there controls what they run.
select format('%s may create in schema %I', x.who, n.nspname) as fault,
       format('revoke create on schema %I from %s', n.nspname, x.who) as remedy
  from pg_namespace n
 cross join lateral (values ('public'), ('kb_reader'), ('kb_creator'), ('kb_admin'), ('kb_app'), ('kb_keyword'), ('kb_queue'),
                            (current_user::text)) x (who)
 where n.nspname in ('public', 'tenancy', 'keyword', 'queue', 'shards')
   and (x.who = 'public' or to_regrole(quote_ident(x.who)) is not null)
   and has_schema_privilege(x.who, n.oid, 'create')
   -- Rights of public apply to each of these roles: one line is enough.
   and (x.who = 'public' or not has_schema_privilege('public', n.oid, 'create'))
 order by 1;

-- name: publications
-- A publication sends the rows of all tenants to its subscribers: policies do not apply to replication.
select format('publication %s sends rows of %s to other servers', quote_ident(p.pubname), x.tables) as fault,
       format('drop publication %I', p.pubname) as remedy
  from pg_publication p
 cross join lateral (
   select case when p.puballtables then 'all tables' else string_agg(distinct t.name, ', ') end as tables
     from (select r.prrelid as oid, r.prrelid::regclass::text as name from pg_publication_rel r where r.prpubid = p.oid
           union
           select c.oid, c.oid::regclass::text
             from pg_publication_namespace n join pg_class c on c.relnamespace = n.pnnspid and c.relkind in ('r', 'p')
                                                                  and not c.relispartition
            where n.pnpubid = p.oid) t
     join pg_class c on c.oid = t.oid
     join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
   ) x
 where x.tables is not null
   -- Those by which Citus moves and splits shards exist for that time.
   and not (:distributed and p.pubname ~ '^citus_shard_(move|split)_publication_'
            and (select r.rolsuper from pg_roles r where r.oid = p.pubowner))
 order by 1;

-- name: event_triggers
-- An event trigger runs with the rights of the role whose command fires it, e.g. the owner of our tables. Those of the
-- server's administrator are accepted, except at login, where they would run before each session of the service.
select format('event trigger %s runs %s of %s at %s', quote_ident(e.evtname), e.evtfoid::regproc, p.proowner::regrole, e.evtevent) as fault,
       format('drop event trigger %I', e.evtname) as remedy
  from pg_event_trigger e
  join pg_proc p on p.oid = e.evtfoid
  join pg_roles r on r.oid = p.proowner
 where e.evtenabled <> 'D'
   and (e.evtevent = 'login' or p.prosecdef or not r.rolsuper)
   and not exists (select from pg_depend d where d.classid = 'pg_event_trigger'::regclass and d.objid = e.oid and d.deptype = 'e')
 order by 1;
