-- The queries of `knowledge doctor`, run as the service's role.

-- name: server
select current_setting('server_version') as version, clock_timestamp() as now,
       pg_database_size(current_database()) as bytes,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
         - coalesce(current_setting('reserved_connections', true)::integer, 0) as most_connections,
       (select sum(numbackends) from pg_stat_database)::integer as connections,
       (select rolconnlimit from pg_roles where rolname = current_user) as role_connections;

-- name: extension
select x.extversion as installed, a.default_version as available
  from pg_extension x left join pg_available_extensions a on a.name = x.extname
 where x.extname = 'vector';

-- name: broken_indexes
-- An index whose build was interrupted is maintained but never read.
select i.indexrelid::regclass::text as name
  from pg_index i
  join pg_class c on c.oid = i.indrelid
  join pg_class entries on entries.oid = to_regclass('public.entries') and entries.relowner = c.relowner
 where not (i.indisvalid and i.indisready)
 order by 1;

-- name: word_index
-- How many partitions have the index, and how often searches read them.
select x.name, to_regclass('public.' || x.name) is not null as present,
       (select count(*) from pg_partition_tree('public.entries'::regclass) where isleaf) as partitions,
       count(h.inhrelid) as attached, coalesce(sum(s.idx_scan), 0)::bigint as scans,
       coalesce(sum(pg_relation_size(h.inhrelid)), 0)::bigint as bytes
  from (values ('entries_by_lexeme')) x (name)
  left join pg_inherits h on h.inhparent = to_regclass('public.' || x.name)
  left join pg_stat_user_indexes s on s.indexrelid = h.inhrelid
 group by x.name;

-- name: vector_indexes
-- The indexes that large tenants have of their own.
select count(*) as indexes, coalesce(sum(s.idx_scan), 0)::bigint as scans,
       coalesce(sum(pg_relation_size(c.oid)), 0)::bigint as bytes
  from pg_class c
  left join pg_stat_user_indexes s on s.indexrelid = c.oid
 where c.relkind = 'i' and c.relnamespace = 'public'::regnamespace and c.relname ~ '^embeddings_hnsw_[0-9]+_[0-9a-f]{32}$';

-- name: backlog
-- One tenant's work: queued and due jobs, jobs whose worker is lost, and permanent failures.
select j.jobs, j.overdue, j.lost, j.oldest_seconds, a.failed as failed_assets, p.pending, p.refused,
       coalesce(v.passages, 0) as passages, coalesce(v.index_state, 'none') as index_state, t.model_id
  from tenants t
  left join vector_statistics v on v.tenant_id = :tenant_id and v.model_id = t.model_id
 cross join (select count(*) as jobs,
                    count(*) filter (where state = 'queued' and run_at <= clock_timestamp()) as overdue,
                    count(*) filter (where state = 'running' and lease_until < clock_timestamp()) as lost,
                    extract(epoch from clock_timestamp() - min(run_at) filter (
                      where state = 'queued' and run_at <= clock_timestamp()))::double precision as oldest_seconds
               from jobs where tenant_id = :tenant_id) j
 cross join (select count(*) as failed from assets where tenant_id = :tenant_id and status = 'failed') a
 cross join (select count(*) filter (where attempts < 5) as pending, count(*) filter (where attempts >= 5) as refused
               from pending_embeddings where tenant_id = :tenant_id) p
 where t.id = :tenant_id;
