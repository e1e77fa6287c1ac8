-- Feedback of callers on the hits of their searches, and its evaluation.

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
