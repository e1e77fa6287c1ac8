-- Everything that migrations make and every right that they give: the kind and name of a thing, and one part of its
-- definition. Objects that belong to an extension are left out. Nothing here depends on the order of creation, except
-- the order of columns. The server's major version is in it, since versions print definitions differently.
with ours as (
  select oid, nspname, nspowner, nspacl from pg_namespace
   where nspname !~ '^pg_' and nspname <> 'information_schema'
), extended as (
  select classid, objid from pg_depend where deptype = 'e'
), relations as (
  select c.*, c.oid::regclass::text as name from pg_class c join ours n on n.oid = c.relnamespace
   where ('pg_class'::regclass, c.oid) not in (table extended) and c.relname not like 'alembic\_version%'
), functions as (
  select p.*, p.oid::regprocedure::text as signature from pg_proc p join ours n on n.oid = p.pronamespace
   where ('pg_proc'::regclass, p.oid) not in (table extended)
), rights (thing, owner, acl) as (
  select 'schema ' || nspname, nspowner, coalesce(nspacl, acldefault('n', nspowner)) from ours
  union all
  select 'relation ' || name, relowner, coalesce(relacl, acldefault('r', relowner)) from relations where relkind in ('r', 'p')
  union all
  select 'relation ' || name, relowner, coalesce(relacl, acldefault('s', relowner)) from relations where relkind = 'S'
  union all
  select 'relation alembic_version', relowner, relacl from pg_class where oid = to_regclass('public.alembic_version')
  union all
  select 'column ' || r.name || '.' || a.attname, r.relowner, a.attacl
    from relations r join pg_attribute a on a.attrelid = r.oid and a.attacl is not null
  union all
  select 'function ' || signature, proowner, coalesce(proacl, acldefault('f', proowner)) from functions
  union all
  select 'type ' || t.oid::regtype, t.typowner, coalesce(t.typacl, acldefault('T', t.typowner))
    from pg_type t join relations r on r.oid = t.typrelid and r.relkind = 'c'
)
select thing, 'right of ' || coalesce(nullif(a.grantee, 0)::regrole::text, 'public') || ' by ' || a.grantor::regrole || ': '
              || a.privilege_type || case when a.is_grantable then ' with grant option' else '' end as detail
  from rights r cross join lateral aclexplode(r.acl) a
union all
select 'schema ' || nspname, 'owner ' || nspowner::regrole from ours
union all
select 'relation ' || name,
       concat_ws(' ', 'kind', relkind, 'owner', relowner::regrole, 'persistence', relpersistence, 'method', m.amname,
                 'security', relrowsecurity, relforcerowsecurity, 'replica identity', relreplident, 'options', reloptions,
                 'partition', pg_get_expr(relpartbound, r.oid), 'of', i.inhparent::regclass, 'by', pg_get_partkeydef(r.oid),
                 'tablespace', reltablespace)
  from relations r left join pg_inherits i on i.inhrelid = r.oid left join pg_am m on m.oid = relam
 where relkind in ('r', 'p', 'S', 'c', 'v', 'm', 'f')
union all
select 'relation ' || r.name,
       concat_ws(' ', 'column', a.attname, 'place', row_number() over (partition by r.oid order by a.attnum), format_type(a.atttypid, a.atttypmod),
                 'not null', a.attnotnull, 'identity', a.attidentity, 'generated', a.attgenerated, 'storage', a.attstorage,
                 'compression', a.attcompression, 'collation', a.attcollation::regcollation, 'options', a.attoptions,
                 'default', pg_get_expr(d.adbin, d.adrelid), 'inherited', a.attislocal, a.attinhcount)
  from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
 where r.relkind in ('r', 'p', 'c', 'v', 'm', 'f')
union all
select 'constraint of ' || coalesce(r.name, k.contypid::regtype::text),
       concat_ws(' ', k.conname, k.contype, pg_get_constraintdef(k.oid), k.convalidated, k.conislocal, k.coninhcount)
  from pg_constraint k left join relations r on r.oid = k.conrelid
 where k.connamespace in (select oid from ours) and k.contype <> 'n' and (k.conrelid = 0 or r.oid is not null)
union all
select 'index of ' || t.name,
       concat_ws(' ', pg_get_indexdef(i.indexrelid), 'owner', x.relowner::regrole, 'options', x.reloptions,
                 'valid', i.indisvalid, i.indisready, i.indisclustered, 'part of', h.inhparent::regclass)
  from pg_index i join relations t on t.oid = i.indrelid join relations x on x.oid = i.indexrelid
  left join pg_inherits h on h.inhrelid = x.oid
union all
select 'sequence ' || r.name,
       concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle,
                 d.deptype, d.refobjid::regclass, d.refobjsubid)
  from relations r join pg_sequence s on s.seqrelid = r.oid
  left join pg_depend d on d.objid = r.oid and d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass
union all
select 'function ' || signature,
       concat_ws(' ', 'owner', proowner::regrole, 'definer', prosecdef, 'leakproof', proleakproof, 'volatile', provolatile,
                 'parallel', proparallel, 'config', proconfig, 'cost', procost, prorows, 'body',
                 case prokind when 'f' then pg_get_functiondef(oid) end)
  from functions
union all
select 'trigger of ' || r.name,
       concat_ws(' ', pg_get_triggerdef(t.oid), 'enabled', t.tgenabled, 'part of', p.tgname)
  from pg_trigger t join relations r on r.oid = t.tgrelid left join pg_trigger p on p.oid = t.tgparentid
 where not t.tgisinternal
union all
select 'policy of ' || r.name,
       concat_ws(' ', p.polname, p.polcmd, p.polpermissive,
                 (select string_agg(o::regrole::text, ', ' order by o::regrole::text) from unnest(p.polroles) o),
                 pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid))
  from pg_policy p join relations r on r.oid = p.polrelid
union all
select 'rule of ' || r.name, pg_get_ruledef(w.oid) from pg_rewrite w join relations r on r.oid = w.ev_class
union all
select 'event trigger ' || evtname, concat_ws(' ', evtevent, evtfoid::regproc, evtenabled, evttags) from pg_event_trigger
union all
select 'type ' || t.oid::regtype, concat_ws(' ', t.typtype, 'owner', t.typowner::regrole)
  from pg_type t
 where t.typnamespace in (select oid from ours) and ('pg_type'::regclass, t.oid) not in (table extended)
   and (t.typrelid = 0 and t.typelem = 0 or t.typrelid in (select oid from relations where relkind = 'c'))
union all
select case c.classoid when 'pg_class'::regclass then 'relation ' || c.objoid::regclass
                       when 'pg_type'::regclass then 'type ' || c.objoid::regtype
                       when 'pg_proc'::regclass then 'function ' || c.objoid::regprocedure
                       else pg_describe_object(c.classoid, c.objoid, c.objsubid) end,
       concat_ws(' ', 'comment on', pg_describe_object(c.classoid, c.objoid, c.objsubid), c.description)
  from pg_description c
 where c.classoid = 'pg_class'::regclass and c.objoid in (select oid from relations)
    or c.classoid = 'pg_proc'::regclass and c.objoid in (select oid from functions)
    or c.classoid = 'pg_type'::regclass and c.objoid in (select reltype from relations)
    or c.classoid = 'pg_namespace'::regclass and c.objoid in (select oid from ours)
    or c.classoid in ('pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_constraint'::regclass)
union all
select 'statistics ' || stxname, pg_get_statisticsobjdef(oid) from pg_statistic_ext
 where stxnamespace in (select oid from ours)
union all
select 'extension ' || extname, concat_ws(' ', extnamespace::regnamespace, extowner::regrole) from pg_extension
union all
select 'server', current_setting('server_version_num')::integer / 10000 || ''
union all
select 'role ' || rolname,
       concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls,
                 rolconnlimit, rolvaliduntil, rolconfig)
  from pg_roles where rolname like 'kb\_%'
union all
select 'member of ' || roleid::regrole,
       concat_ws(' ', member::regrole, 'by', grantor::regrole, admin_option, inherit_option, set_option)
  from pg_auth_members where roleid::regrole::text like 'kb\_%'
union all
select 'default rights of ' || d.defaclrole::regrole,
       concat_ws(' ', coalesce(n.nspname, ''), d.defaclobjtype, a.grantee::regrole, a.privilege_type)
  from pg_default_acl d left join pg_namespace n on n.oid = d.defaclnamespace cross join lateral aclexplode(d.defaclacl) a
union all
select 'setting', concat_ws(' ', s.setrole::regrole, c) from pg_db_role_setting s cross join unnest(s.setconfig) c
 where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
union all
select 'database', 'right of ' || coalesce(nullif(a.grantee, 0)::regrole::text, 'public') || ': ' || a.privilege_type
  from pg_database d cross join lateral aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
 where d.datname = current_database()
order by 1, 2
