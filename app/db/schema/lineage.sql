-- What the revisions in `alembic/versions` create: each table and type of the schema public, with its columns, checks and unique
-- keys, and after each the beginning of the digest of its definition. Run with search_path = pg_catalog: names are complete.

-- name: list_objects
with ours as (
  select oid, relname from pg_class
   where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'c') and not relispartition
     and relname <> 'alembic_version'
), parts (oid, name, definition) as (
  select a.attrelid, a.attname, t.typname || case when a.attnotnull then ' not null' else '' end
    from pg_attribute a join pg_type t on t.oid = a.atttypid
   where a.attnum > 0 and not a.attisdropped
  union all
  select k.conrelid, k.conname, replace(pg_get_constraintdef(k.oid), ' NOT VALID', '')
    from pg_constraint k where k.contype in ('c', 'p', 'u')
  union all
  select i.indrelid, c.relname, pg_get_indexdef(i.indexrelid)
    from pg_index i join pg_class c on c.oid = i.indexrelid
   where i.indisunique and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
)
select ours.relname as name,
       array_agg(p.name || ':' || left(encode(sha256(convert_to(p.definition, 'UTF8')), 'hex'), 6) order by p.name collate "C") as parts
  from ours join parts p on p.oid = ours.oid
 group by ours.relname
 order by ours.relname collate "C";
