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

-- name: changed_settings
-- The names of settings that were changed since a time, or that the service has tuned.
select distinct coalesce(f.name, 'tuned') as name
  from audit a
  left join lateral jsonb_array_elements_text(a.detail -> 'fields') f (name) on true
 where a.tenant_id = :tenant_id and a.at > :at and a.outcome = 'done'
   and (a.action in ('settings.update', 'settings.tune') or a.action = 'tenant.import' and a.detail ->> 'part' = 'settings')
 order by 1;

-- name: traces
-- What is there of entries of which a search ranked these versions: the entry, whether it is the version that was ranked,
-- and whether a version of that time is kept. The times of receipts are rounded.
select w.id, e.id is not null as exists, coalesce(abs(extract(epoch from e.updated_at - w.updated_at)) < 0.00001, false) as unchanged,
       exists (select from former_entries v
                where v.tenant_id = :tenant_id and v.id = w.id and not v.absent
                  and abs(extract(epoch from v.updated_at - w.updated_at)) < 0.00001) as kept
  from unnest(:ids::uuid[], :times::timestamptz[]) w (id, updated_at)
  left join entries e on e.tenant_id = :tenant_id and e.id = w.id;
