-- The metadata of a Citus cluster, which every node has.

-- name: has_citus
select exists (select from pg_extension where extname = 'citus');

-- name: is_distributed
select exists (select from pg_dist_partition where logicalrelid = to_regclass('public.tenants') and partmethod = 'h');

-- name: find_place
select p.shardid as group, n.nodename as host, n.nodeport as port,
       (select array_agg(s.name order by s.name) from shards.names(p.shardid) s) as tables,
       (select array_agg(s.shard order by s.name) from shards.names(p.shardid) s) as shards,
       (select array_agg(regexp_replace(t.name, '^public\.', '')) from shards.templates t) as functions
  from pg_dist_placement p
  join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
 where p.shardid = get_shard_id_for_distribution_column('public.tenants', :tenant::uuid) and p.shardstate = 1;

-- name: adopt
select shards.adopt(:group);

-- name: list_holders
select distinct n.nodename as host, n.nodeport as port
  from pg_dist_shard s
  join pg_dist_placement p on p.shardid = s.shardid and p.shardstate = 1
  join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
 where s.logicalrelid = to_regclass('public.tenants')
 order by 1, 2;
