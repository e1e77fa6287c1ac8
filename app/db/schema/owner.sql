-- The files of tables whose rows an erasure removes.

-- name: places
-- The tables of tenants and, of the partitions, those that hold this tenant. In a cluster, tables have shards instead.
select c.oid::regclass::text as place
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
  left join pg_inherits h on h.inhrelid = c.oid
 left join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'modulus (\d+), remainder (\d+)') b (found) on true
 where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
   and (h.inhparent is null
        or satisfies_hash_partition(h.inhparent, b.found[1]::integer, b.found[2]::integer, :tenant::uuid))
 order by 1;

-- name: parents
select c.oid::regclass::text as place from pg_class c
 where c.relnamespace = 'public'::regnamespace and c.relkind = 'p' order by 1;

-- name: file
select pg_relation_filenode(:place::text::regclass);

-- name: can_clear
select to_regprocedure('pg_catalog.pg_clear_attribute_stats(text, text, text, boolean)') is not null;

-- name: clear_statistics
-- `analyze` leaves the statistics of a table that has become empty as they are. Since Postgres 18.
select pg_clear_attribute_stats('public', c.relname::text, a.attname::text, c.relkind = 'p')
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.oid = :place::text::regclass;
