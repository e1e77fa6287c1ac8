-- The receipts of searches, feedback of callers on their hits, and its evaluation.

-- name: insert_searches
insert into searches (tenant_id, id, subject, at, fallback, result_count, query_time_ms, receipt, ranking)
select :tenant_id, s.* from unnest(:ids::uuid[], :subjects::text[], :ats::timestamptz[], :fallbacks::boolean[],
                                   :result_counts::integer[], :query_times::integer[], :receipts::jsonb[],
                                   :rankings::bytea[]) s;

-- name: fetch_search
select id, subject, at, result_count, query_time_ms, receipt, ranking from searches
 where tenant_id = :tenant_id and id = :id and at > clock_timestamp() - :age::interval;

-- name: list_searches
-- Newest first; only the beginning of a query, which only tenants keep that want to.
select id, subject, at, result_count, query_time_ms, fallback, receipt ->> 'mode' as mode,
       left(receipt ->> 'query', 200) as query
  from searches
 where tenant_id = :tenant_id and at > clock_timestamp() - :age::interval
   and (:subject::text is null or subject = :subject) and (not :only_empty::boolean or result_count = 0)
   and (:after_id::uuid is null or (at, id) < (:after_key::timestamptz, :after_id::uuid))
 order by at desc, id desc limit :limit;

-- name: recent_requests
-- The latest searches, each query once; receipts contain queries only if the tenant keeps them.
select r.query, r.mode, r.rrf_k, r.options
  from (
    select distinct on (s.receipt ->> 'query') s.receipt ->> 'query' as query, s.receipt ->> 'mode' as mode,
           (s.receipt ->> 'rrf_k')::integer as rrf_k, s.receipt -> 'options' as options, s.at
      from (select receipt, at from searches
             where tenant_id = :tenant_id and at > clock_timestamp() - :age::interval and receipt ? 'query'
               and ranking is not null
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
   set ranking = null,
       receipt = case when receipt ? 'query' then jsonb_build_object('query', receipt -> 'query') else '{}'::jsonb end
 where tenant_id = :tenant_id and at < clock_timestamp() - :age::interval and ranking is not null;

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

-- name: put
insert into feedback as f (tenant_id, search_id, entry_id, subject, relevant, query)
values (:tenant_id, :search_id, :entry_id, :subject, :relevant, :query)
on conflict (tenant_id, search_id, entry_id, subject) do update
   set relevant = excluded.relevant, query = excluded.query, at = clock_timestamp()
returning f.at;

-- name: erase_queries
-- Deletes stored queries everywhere, unless the tenant keeps them.
with tenant as (
  select id from tenants where id = :tenant_id and coalesce(settings ->> 'keep_query_text', 'false') <> 'true'
), of_searches as (
  update searches s set receipt = s.receipt - 'query' from tenant t
   where s.tenant_id = :tenant_id and t.id = s.tenant_id and s.receipt ? 'query'
)
update feedback f set query = null from tenant t
 where f.tenant_id = :tenant_id and t.id = f.tenant_id and f.query is not null;

-- name: counts
select (select count(*) from feedback
         where tenant_id = :tenant_id and relevant and at > clock_timestamp() - :age::interval) as relevant,
       (select count(*) from feedback
         where tenant_id = :tenant_id and not relevant and at > clock_timestamp() - :age::interval) as not_relevant,
       (select count(*) from searches
         where tenant_id = :tenant_id and result_count = 0 and at > clock_timestamp() - :age::interval)
         as without_results;

-- name: empty_searches
-- By query, if it is kept; searches whose query is not kept are only counted above.
select receipt ->> 'query' as query, count(*) as searches, max(at) as last_at
  from searches
 where tenant_id = :tenant_id and result_count = 0 and receipt ? 'query' and at > clock_timestamp() - :age::interval
 group by 1 order by 2 desc, 3 desc, 1 limit :limit;

-- name: disliked
-- Entries marked as not relevant, by number of people.
select f.entry_id, e.title, e.entry_type,
       count(*) filter (where not f.relevant) as not_relevant, count(*) filter (where f.relevant) as relevant,
       max(f.at) as last_at,
       coalesce((array_agg(distinct f.query) filter (where not f.relevant and f.query is not null))[1:5], '{}') as queries
  from feedback f join entries e on e.tenant_id = :tenant_id and e.id = f.entry_id
 where f.tenant_id = :tenant_id and f.at > clock_timestamp() - :age::interval
 group by f.entry_id, e.title, e.entry_type
having count(*) filter (where not f.relevant) > 0
 order by 4 desc, 5, 6 desc, 1 limit :limit;

-- name: judgements
-- The majority judgement on an entry as an answer to a query; a draw gives none.
select lower(f.query) as query, f.entry_id, sum(case when f.relevant then 1 else -1 end) > 0 as relevant
  from feedback f
 where f.tenant_id = :tenant_id and f.query is not null
 group by 1, 2 having sum(case when f.relevant then 1 else -1 end) <> 0
 order by 1, 2;
