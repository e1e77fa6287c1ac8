-- The nodes of a cluster and what they hold; a shard is that of `tenants` with those of all tables colocated with it.
-- Moves of shards run on the coordinator unless a comment names another node. The role must see the rows of all tenants:
-- Citus copies the rows that it sees.

-- name: state
-- Only for a database with the extension.
select citus_is_coordinator() as coordinator,
       exists (select from pg_dist_partition where logicalrelid = to_regclass('public.tenants')) as distributed,
       (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) as sees_all_rows;

-- name: shards
-- The ends of a shard's range of hashes are inclusive. Sizes include indexes; null: the node did not tell.
select t.shardid as id, n.nodename as host, n.nodeport as port, t.shardminvalue::integer as first,
       t.shardmaxvalue::integer as last, sum(z.bytes)::bigint as bytes
  from pg_dist_partition c
  join pg_dist_shard t on t.logicalrelid = c.logicalrelid
  join pg_dist_partition p on p.colocationid = c.colocationid
  join pg_dist_shard s on s.logicalrelid = p.logicalrelid and s.shardminvalue = t.shardminvalue
  join pg_dist_placement l on l.shardid = t.shardid and l.shardstate = 1
  join pg_dist_node n on n.groupid = l.groupid and n.noderole = 'primary'
  left join (select shard_id, max(size) as bytes from citus_shard_sizes() group by shard_id) z on z.shard_id = s.shardid
 where c.logicalrelid = 'public.tenants'::regclass
 group by t.shardid, n.nodename, n.nodeport, t.shardminvalue, t.shardmaxvalue
 order by t.shardminvalue::integer;

-- name: count_tenants
-- Counted on the nodes; `firsts` are the first hashes of all shards, ascending.
select width_bucket(worker_hash(id), :firsts::integer[]) as number, count(*) as tenants from tenants group by 1;

-- name: connections
select current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
         - coalesce(current_setting('reserved_connections', true)::integer, 0) as most,
       (select sum(numbackends) from pg_stat_database)::integer as used;

-- name: find_tenant
select id, worker_hash(id) as hash from tenants where slug = :slug;

-- name: divide
-- The parts end at these hashes, and each comes to one of the nodes.
select citus_split_shard_by_split_points(:shard::bigint, :ends::text[], :nodes::integer[], :mode);

-- name: move
select citus_move_shard_placement(:shard::bigint, :from_host::text, :from_port::integer, :to_host::text, :to_port::integer,
                                  :mode);

-- name: clean
-- The former placements, which Citus would otherwise drop a quarter of a minute later. Not in a transaction.
call citus_cleanup_orphaned_resources();

-- name: adopt
-- Run on the node that holds the shard.
select shards.adopt(:shard::bigint);

-- name: wait_for_write
-- Run on the node that holds the shard: waits as a transaction of the service does (ShareLock), and holds nothing.
select lock_shard_metadata(5, array[:shard::bigint]);

-- name: note
insert into platform_audit (actor, action, subject_tenant, detail, outcome)
values (:actor, 'tenant.move', :tenant_id, :detail::jsonb, :outcome);
