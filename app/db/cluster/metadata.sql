-- The metadata of a Citus cluster, which every node has.

-- name: is_coordinator
select groupid = 0 from pg_dist_local_group;

-- name: list_nodes
select nodeid as id, nodename as host, nodeport as port, groupid = 0 as is_coordinator,
       isactive and hasmetadata and metadatasynced as is_ready, shouldhaveshards and isactive as takes_shards
  from pg_dist_node where noderole = 'primary' and nodecluster = current_setting('citus.cluster_name')
 order by groupid;

-- name: list_shards
-- The shards that this node has tables of, and the table that each is part of. While shards are moved or split, and for
-- some seconds after it, there are also tables that are not here yet, or not any more: they are known by their names.
select c.relname as name, c.oid, b.relname as table, b.oid as base,
       exists (select from pg_dist_placement p
                 join pg_dist_local_group g on g.groupid = p.groupid
                 join pg_dist_shard s on s.shardid = p.shardid and s.logicalrelid = b.oid
                where p.shardid = substring(c.relname from '\d+$')::bigint and p.shardstate = 1) as is_here
  from pg_dist_partition d
  join pg_class b on b.oid = d.logicalrelid
  join pg_class c on c.relkind = 'r' and c.relnamespace = b.relnamespace and c.relowner = b.relowner
                 and c.relname ~ '_\d{5,}$' and regexp_replace(c.relname, '_\d+$', '') = b.relname
 order by c.relname;

-- name: list_distributed
select logicalrelid::oid as oid from pg_dist_partition where partmethod = 'h';

-- name: list_copied
select regexp_replace(name, '^public\.', '') as name from shards.templates;

-- name: list_differences
-- What the shards on this node should have otherwise.
select d.fault from shards.local_groups() g cross join shards.differences(g) d;

-- name: list_local_groups
select shards.local_groups() as number;

-- name: adopt
select shards.adopt(:number);

-- name: list_groups
-- A group is the shards that hold the same tenants, and its number that of the shard of `tenants`; with the reference tables.
select own.shardid as number, array_agg(b.relname::text) as tables, array_agg(b.relname || '_' || s.shardid) as shards
  from pg_dist_shard own
  join pg_dist_partition t on t.logicalrelid = own.logicalrelid
  join pg_dist_partition o on o.colocationid = t.colocationid or o.partmethod = 'n' and o.repmodel = 't'
  join pg_dist_shard s on s.logicalrelid = o.logicalrelid and (s.shardminvalue = own.shardminvalue or o.partmethod = 'n')
  join pg_class b on b.oid = o.logicalrelid
 where own.logicalrelid = to_regclass('public.tenants')
 group by own.shardid;
