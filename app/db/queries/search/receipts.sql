-- The receipts of searches.

-- name: insert_searches
insert into searches (tenant_id, id, subject, at, fallback, result_count, query_time_ms, receipt)
select :tenant_id, s.* from unnest(:ids::uuid[], :subjects::text[], :ats::timestamptz[], :fallbacks::boolean[],
                                   :result_counts::integer[], :query_times::integer[], :receipts::jsonb[]) s;

-- name: fetch_search
select id, subject, at, result_count, query_time_ms, receipt from searches
 where tenant_id = :tenant_id and id = :id and at > clock_timestamp() - :age::interval;

-- name: list_searches
-- Newest first; only the beginning of a query, which only tenants keep that want to.
select id, subject, at, result_count, query_time_ms, fallback, receipt ->> 'mode' as mode,
       left(receipt ->> 'query', 200) as query
  from searches
 where tenant_id = :tenant_id and at > clock_timestamp() - :age::interval
   and (:subject::text is null or subject = :subject) and (not :only_empty::boolean or result_count = 0)
   and (:before_id::uuid is null or (at, id) < (:before_at::timestamptz, :before_id::uuid))
 order by at desc, id desc limit :limit;

-- name: recent_requests
-- The latest searches, each query once; receipts contain queries only if the tenant keeps them.
select r.query, r.mode, r.rrf_k, r.options
  from (
    select distinct on (s.receipt ->> 'query') s.receipt ->> 'query' as query, s.receipt ->> 'mode' as mode,
           (s.receipt ->> 'rrf_k')::integer as rrf_k, s.receipt -> 'options' as options, s.at
      from (select receipt, at from searches
             where tenant_id = :tenant_id and at > clock_timestamp() - :age::interval and receipt ? 'query'
               and receipt ? 'ranking'
             order by at desc limit 200) s
     order by 1, s.at desc
  ) r
 order by r.at desc limit :limit;

-- name: purge_searches
-- A search without results is kept for longer, without its receipt; other old searches are deleted.
delete from searches
 where tenant_id = :tenant_id
   and (at < clock_timestamp() - :empty_age::interval
        or (at < clock_timestamp() - :age::interval and result_count > 0));

-- name: strip_receipts
update searches
   set receipt = case when receipt ? 'query' then jsonb_build_object('query', receipt -> 'query') else '{}'::jsonb end
 where tenant_id = :tenant_id and at < clock_timestamp() - :age::interval and receipt ? 'ranking';
