-- What a tenant has stored and embedded, as its limits count it.

-- name: stored
-- The usage that counts against the limits of entries and bytes: of all entries, also those that the caller may not read.
select coalesce(c.entries, 0)::bigint as entries, (coalesce(c.characters, 0) + coalesce(a.bytes, 0))::bigint as bytes
  from stored_entries() c
  left join asset_statistics a on a.tenant_id = :tenant_id;

-- name: lock
-- Until the transaction ends, other transactions near a limit of the tenant wait.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid::text, 14));

-- name: tokens_today
select tokens from embedding_usage
 where tenant_id = :tenant_id and day = (clock_timestamp() at time zone 'UTC')::date;

-- name: add_tokens
insert into embedding_usage as u (tenant_id, day, tokens)
values (:tenant_id, (clock_timestamp() at time zone 'UTC')::date, :tokens)
on conflict (tenant_id, day) do update set tokens = u.tokens + excluded.tokens;

-- name: purge
delete from embedding_usage
 where tenant_id = :tenant_id and day < (clock_timestamp() at time zone 'UTC')::date - :days::integer;

-- name: callers
-- Of the last 24 hours; the changes leave out what admins read.
with searched as (
  select subject, count(*) as searches, count(*) filter (where result_count = 0) as without_results,
         percentile_disc(0.95) within group (order by query_time_ms) as p95_ms, max(at) as last_at
    from searches
   where tenant_id = :tenant_id and at > statement_timestamp() - interval '24 hours'
   group by subject
), acted as (
  select actor, count(*) filter (where outcome = 'done' and action not like '%.read') as changes,
         count(*) filter (where outcome = 'refused') as refused, max(at) as last_at
    from audit
   where tenant_id = :tenant_id and at > statement_timestamp() - interval '24 hours'
   group by actor
)
select coalesce(s.subject, a.actor) as subject, coalesce(s.searches, 0) as searches,
       coalesce(s.without_results, 0) as without_results, s.p95_ms, coalesce(a.changes, 0) as changes,
       coalesce(a.refused, 0) as refused, greatest(s.last_at, a.last_at) as last_at
  from searched s full join acted a on a.actor = s.subject
 order by coalesce(s.searches, 0) + coalesce(a.changes, 0) desc, 1 limit :limit;
