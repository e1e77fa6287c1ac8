-- name: insert_searches
insert into searches (tenant_id, id, subject, at, fallback, result_count, query_time_ms, receipt)
select :tenant_id, s.* from unnest(:ids::uuid[], :subjects::text[], :ats::timestamptz[], :fallbacks::boolean[],
                                   :result_counts::integer[], :query_times::integer[], :receipts::jsonb[]) s;

-- name: count_accesses
insert into access_counts as a (tenant_id, entry_id, accesses)
select :tenant_id, u.id, u.accesses
  from unnest(:ids::uuid[], :accesses::bigint[]) u (id, accesses)
 where exists (select from entries e where e.tenant_id = :tenant_id and e.id = u.id)
 order by u.id
on conflict (tenant_id, entry_id) do update set accesses = a.accesses + excluded.accesses;

-- name: fetch_search
select id, subject, at, receipt from searches where tenant_id = :tenant_id and id = :id;

-- name: purge_searches
delete from searches where tenant_id = :tenant_id and at < clock_timestamp() - :age::interval;

-- name: boost_facts
select e.id, e.entry_type, e.is_verified, coalesce(a.accesses, 0) as accesses
  from entries e left join access_counts a on a.tenant_id = :tenant_id and a.entry_id = e.id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);

-- name: suggest_tags
-- Tags of the tenant that resemble a word of the query, else the most used ones.
with tags as (
  select tag, count(*) as uses
    from (select unnest(tags) as tag from entries where tenant_id = :tenant_id limit 20000) t group by tag
), likeness as (
  select tag, uses, (select max(similarity(tag, w)) from unnest(:words::text[]) w) as alike from tags
)
select tag from likeness order by coalesce(alike, 0) > 0.3 desc, case when alike > 0.3 then alike end desc nulls last,
       uses desc, tag limit :limit;

-- name: write_audit
insert into audit (tenant_id, id, actor, action, subject_ids, detail)
values (:tenant_id, :id, :actor, :action, :subject_ids::uuid[], :detail::jsonb);

-- name: list_audit
select id, at, actor, action, subject_ids, detail from audit
 where tenant_id = :tenant_id and (:before_id::uuid is null or (at, id) < (:before_at::timestamptz, :before_id::uuid))
 order by at desc, id desc limit :limit;
