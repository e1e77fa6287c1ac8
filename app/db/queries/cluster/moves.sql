-- Moves of shards, run on the coordinator unless a comment names another node. The role must see the rows of all tenants:
-- Citus copies the rows that it sees.

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
