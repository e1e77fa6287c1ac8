-- What a node of a cluster lacks, or has too much of; run as the owner of the tables. "Ours" are the schemas of alembic/sql.

-- name: list_tables_of_groups
-- The tables with shards, and the reference tables.
select c.relname as name from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid
 where p.partmethod = 'h' or p.partmethod = 'n' and p.repmodel = 't' order by 1;

-- name: list_copies
-- The copies of these functions, the newest first, and whether triggers run them.
select p.oid::regprocedure::text as name, p.proowner::regrole::text as owner, p.prorettype = 'trigger'::regtype as is_run
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname || '.' || regexp_replace(p.proname, '_\d+$', '') = any (:names::text[]) and p.proname ~ '_\d{5,}$'
 order by p.oid desc;

-- name: is_of_triggers
select p.prorettype = 'trigger'::regtype from pg_proc p where p.oid = to_regprocedure(:name);

-- name: list_open_functions
-- Functions of ours that every role may execute: those that Citus creates on a worker have the rights of new functions.
select p.oid::regprocedure::text as name, p.proowner::regrole::text as owner
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace and n.nspname in ('public', 'tenancy', 'keyword', 'queue', 'shards')
 where has_function_privilege('public', p.oid, 'execute')
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
   and pg_has_role(p.proowner, 'set');

-- name: list_functions
select p.oid::regprocedure::text as name, p.proowner::regrole::text as owner
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace and n.nspname in ('public', 'tenancy', 'keyword', 'queue', 'shards')
 where not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') and pg_has_role(p.proowner, 'set')
   -- The copies for groups of shards, which the node makes itself.
   and p.proname !~ '_\d{5,}$'
 order by p.oid desc;

-- name: owner_of
-- Null: the function was dropped with another.
select p.proowner::regrole::text from pg_proc p where p.oid = to_regprocedure(:name);

-- name: forget_incomplete_groups
-- Groups with a shard that is not complete, e.g. of a table that was added: the node adopts them again.
delete from shards.adopted a
 where exists (select from shards.names(a.shard) n
                 join pg_class c on c.oid = to_regclass('public.' || n.shard) and not c.relforcerowsecurity
                 join pg_policy p on p.polrelid = c.oid and p.polname = 'tenant_isolation')
    or exists (select from shards.differences(a.shard));

-- name: list_undistributed
-- The tables of tenants that are still local, `tenants` first: all others are colocated with it.
select c.oid::regclass::text as name, case when c.relname = 'tenants' then 'id' else 'tenant_id' end as key
  from pg_class c
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
   and c.relowner = current_user::regrole
   and (c.relname = 'tenants'
        or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
   and not exists (select from pg_dist_partition p where p.logicalrelid = c.oid)
 order by c.relname <> 'tenants', c.relname;

-- name: list_local_references
-- The shared tables that every node reads and that are still only on the coordinator.
select c.oid::regclass::text as name
  from pg_class c
 where c.oid in (to_regclass('public.embedding_models'), to_regclass('public.alembic_version'))
   and not exists (select from pg_dist_partition p where p.logicalrelid = c.oid)
 order by 1;

-- name: list_forced
-- The local tables of tenants that hide rows from their owner too. Shards get the settings of the coordinator's table.
select c.oid::regclass::text as name
  from pg_class c
 where c.relforcerowsecurity and c.relowner = current_user::regrole and c.relnamespace = 'public'::regnamespace
   and not exists (select from pg_dist_partition p where p.logicalrelid = c.oid)
 order by 1;

-- name: list_keys
-- The foreign keys of local tables: Citus accepts those to distributed tables only after the distribution.
select k.conrelid::regclass::text as place, quote_ident(k.conname) as name, pg_get_constraintdef(k.oid) as definition
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid and c.relowner = current_user::regrole
 where k.contype = 'f' and k.connamespace = 'public'::regnamespace
   and not exists (select from pg_dist_partition p where p.logicalrelid = k.conrelid)
 order by k.conrelid, k.conname;

-- name: list_row_functions
-- The functions with a parameter of the row type of a local table: Citus sees a circular dependency between the two.
select string_agg(p.oid::regprocedure::text, ', ') as names
  from pg_proc p
 where exists (
   select from unnest(p.proargtypes) a (oid)
     join pg_type t on t.oid = a.oid
     join pg_class c on c.oid = t.typrelid and c.relkind in ('r', 'p') and c.relowner = current_user::regrole
    where not exists (select from pg_dist_partition d where d.logicalrelid = c.oid));
