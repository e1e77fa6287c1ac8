-- Statistics of a tenant's entries and searches, for ranking, upkeep and admins.

-- name: refresh_lexemes
-- Document frequencies of lexemes in at least :least entries without readers; ts_stat reads each tsvector of the tenant
-- once. The words of quarantined entries do not count: corrections and suggestions would show them.
with counted as (
  select word, ndoc from ts_stat(format(
    'select lexemes from public.entries where tenant_id = %L and not quarantined and readers is null', :tenant_id::uuid))
   where ndoc >= :least
), gone as (
  delete from lexeme_statistics l
   where l.tenant_id = :tenant_id and l.principal = 'everyone' and l.lexeme not in (select word from counted)
)
insert into lexeme_statistics (tenant_id, lexeme, entries)
select :tenant_id, word, ndoc from counted
on conflict (tenant_id, lexeme, principal) do update set entries = excluded.entries;

-- name: refresh_lexemes_of_readers
-- As `refresh_lexemes`, for entries with readers, in one pass: for each of the principals that may read most of them, and
-- for all of these entries.
with large as materialized (
  select principal from corpus_statistics
   where tenant_id = :tenant_id and principal <> 'everyone'
   group by principal having sum(entries) >= :least_entries order by sum(entries) desc, principal limit :most
), counted as materialized (
  select l.principal, w.lexeme, count(*)::integer as entries
    from entries e
   cross join lateral unnest(audience(e.readers)) r (principal)
    join large l on l.principal = r.principal
   cross join lateral unnest(tsvector_to_array(e.lexemes)) w (lexeme)
   where e.tenant_id = :tenant_id and e.readers is not null and not e.quarantined
   group by 1, 2 having count(*) >= :least
), gone as (
  delete from lexeme_statistics l
   where l.tenant_id = :tenant_id and l.principal <> 'everyone'
     and not exists (select from counted c where c.principal = l.principal and c.lexeme = l.lexeme)
)
insert into lexeme_statistics (tenant_id, lexeme, principal, entries)
select :tenant_id, lexeme, principal, entries from counted
on conflict (tenant_id, lexeme, principal) do update set entries = excluded.entries;

-- name: reset_changes
update corpus_statistics set changes = 0 where tenant_id = :tenant_id;

-- name: outdated
select place, is_missing from tenancy.outdated_statistics();

-- name: analyze
select tenancy.analyze_table(:place);

-- name: due_work
-- Work due because of growth: new word statistics after a tenth has changed, an index of the tenant's own above the exact
-- size and none below half of it, or for a model without vectors.
with indexes as (
  select m.id as model_id, i.indisvalid and i.indisready as valid
    from embedding_models m
    join pg_index i on i.indexrelid = to_regclass('public.embeddings_hnsw_' || m.id || '_' || replace(:tenant_id::uuid::text, '-', ''))
)
select (select coalesce(sum(changes), 0) > greatest(:least_entries, 0.1 * coalesce(sum(entries), 0))
          from corpus_statistics where tenant_id = :tenant_id and principal in ('everyone', '*')) as lexemes,
       exists (select from tenants t
                 left join vector_statistics v on v.tenant_id = :tenant_id and v.model_id = t.model_id
                 left join indexes i on i.model_id = t.model_id
                where t.id = :tenant_id
                  and case when v.index_state <> 'none' and v.passages > :exact_limit / 2 or v.passages > :exact_limit
                        then v.index_state <> 'ready' or i.valid is not true
                        else v.index_state <> 'none' or i.model_id is not null end)
         or exists (select from indexes i cross join tenants t
                     where t.id = :tenant_id and i.model_id <> t.model_id
                       and not exists (select from vector_statistics v
                                        where v.tenant_id = :tenant_id and v.model_id = i.model_id)) as vectors,
       exists (select from pending_embeddings p join tenants t on t.id = p.tenant_id and t.model_id = p.model_id
                where p.tenant_id = :tenant_id and p.attempts < 5) as embeddings,
       exists (select from model_changes c
                where c.tenant_id = :tenant_id
                  and (c.state <> 'ready'
                       or exists (select from pending_embeddings p join tenants t on t.id = p.tenant_id
                                   where p.tenant_id = :tenant_id and p.attempts < 5 and p.model_id <> t.model_id
                                     and p.model_id in (c.from_model, c.to_model)))) as model_change;

-- name: overview
select (select coalesce(sum(entries), 0)::bigint from corpus_statistics
         where tenant_id = :tenant_id and principal = any (current_principals())) as entries,
       (select coalesce(json_object_agg(entry_type, n order by entry_type), '{}')
          from (select entry_type, count(*) as n from entries where tenant_id = :tenant_id group by entry_type) t)
         as entries_by_type,
       (select coalesce(json_object_agg(language, entries order by language), '{}')
          from (select language, sum(entries)::bigint as entries from corpus_statistics
                 where tenant_id = :tenant_id and principal = any (current_principals()) group by 1) l
         where entries > 0) as entries_by_language,
       (select coalesce(json_object_agg(status, n order by status), '{}')
          from (select status, count(*) as n from assets where tenant_id = :tenant_id group by status) t)
         as assets_by_status,
       (select count(*) from pending_embeddings p join tenants t on t.id = p.tenant_id and t.model_id = p.model_id
         where p.tenant_id = :tenant_id) as pending_embeddings,
       (select coalesce(json_object_agg(flag, n order by flag), '{}')
          from (select f.flag, count(*) as n
                  from entries e cross join lateral jsonb_array_elements_text(
                         case jsonb_typeof(e.metadata -> 'flags') when 'array' then e.metadata -> 'flags' else '[]' end) f (flag)
                 where e.tenant_id = :tenant_id and e.metadata ? 'flags' group by 1) t) as flagged_entries,
       (select count(*) from entries where tenant_id = :tenant_id and quarantined) as quarantined_entries;

-- name: searches_by_hour
-- The last 24 hours by hour (UTC), the first and the last incomplete; hours without searches are omitted. An index-only
-- scan of searches_by_time, which includes the columns, handles 100,000 searches a day without reading the heap. Read
-- hour by hour, so that each sort is small.
select h.hour, s.searches, s.fallbacks, s.without_results, s.percentiles[1] as p50_ms, s.percentiles[2] as p95_ms
  from generate_series(date_bin('1 hour', statement_timestamp() - interval '24 hours', timestamptz '1970-01-01 00:00Z'),
                       statement_timestamp(), interval '1 hour') h (hour)
 cross join lateral (
   select count(*) as searches, count(*) filter (where fallback) as fallbacks,
          count(*) filter (where result_count = 0) as without_results,
          percentile_disc(array[0.5, 0.95]) within group (order by query_time_ms) as percentiles
     from searches
    where tenant_id = :tenant_id and at >= h.hour and at < h.hour + interval '1 hour'
      and at > statement_timestamp() - interval '24 hours') s
 where s.searches > 0
 order by h.hour;

-- name: estimates
-- The last 1,000 searches of the last 24 hours: reading the receipts of all would take seconds.
select count(*) as searches, count(*) filter (where receipt -> 'degraded' ? 'ranking_truncated') as truncated,
       coalesce(avg((length(ranking) / :ranked_bytes::integer)::double precision
                    / nullif((receipt ->> 'estimated_matches')::bigint, 0)), 1)::double precision as ranked_share
  from (select receipt, ranking from searches
         where tenant_id = :tenant_id and at > statement_timestamp() - interval '24 hours' and ranking is not null
         order by at desc limit 1000) s;

-- name: models_in_use
-- The tenant's model first, then other models with vectors or pending work of the tenant. Every entry has or waits for
-- vectors of the tenant's model, so only those of another model, during a change, have to be counted.
select m.provider, m.name, m.dimensions, m.id = t.model_id as is_current, coalesce(v.passages, 0) as passages,
       coalesce(v.index_state, 'none') as index_state, p.waiting, p.refused,
       case when m.id = t.model_id
         then (select coalesce(sum(c.entries), 0)::bigint from corpus_statistics c
                where c.tenant_id = :tenant_id and c.principal = any (current_principals()))
              - p.waiting - p.refused
         else (select count(*) from embeddings k
                where k.tenant_id = :tenant_id and k.model_id = m.id and k.passage = 0) end as entries
  from tenants t
 cross join embedding_models m
  left join vector_statistics v on v.tenant_id = :tenant_id and v.model_id = m.id
 cross join lateral (
   select count(*) filter (where q.attempts < 5) as waiting, count(*) filter (where q.attempts >= 5) as refused
     from pending_embeddings q where q.tenant_id = :tenant_id and q.model_id = m.id) p
 where t.id = :tenant_id and (m.id = t.model_id or v.passages > 0 or p.waiting + p.refused > 0)
 order by is_current desc, m.id;

-- name: backlog
-- Work in the queue by kind; `oldest` is the due time of the job with the longest wait.
select kind, count(*) filter (where state = 'queued') as queued, count(*) filter (where state = 'running') as running,
       min(run_at) filter (where state = 'queued') as oldest
  from jobs where tenant_id = :tenant_id group by kind order by kind;

-- name: health
-- Only counts: the platform's administrators see nothing else of a tenant.
select (select coalesce(sum(entries), 0)::bigint from corpus_statistics
         where tenant_id = :tenant_id and principal = any (current_principals())) as entries,
       a.assets, a.pending + p.pending as pending, a.failed + p.refused as failed, s.searches_24h,
       s.fallbacks::double precision / greatest(s.searches_24h, 1) as fallback_rate,
       greatest((select max(at) from searches where tenant_id = :tenant_id),
                (select max(at) from audit where tenant_id = :tenant_id)) as last_activity,
       t.limits
  from tenants t
 cross join lateral (
   select count(*) as assets, count(*) filter (where f.status = 'failed') as failed,
          count(*) filter (where f.status in ('pending', 'processing')) as pending
     from assets f where f.tenant_id = :tenant_id) a
 cross join lateral (
   select count(*) filter (where q.attempts < 5) as pending,
          count(*) filter (where q.attempts >= 5) as refused
     from pending_embeddings q where q.tenant_id = :tenant_id and q.model_id = t.model_id) p
 cross join lateral (
   select count(*) as searches_24h, count(*) filter (where x.fallback) as fallbacks from searches x
    where x.tenant_id = :tenant_id and x.at > statement_timestamp() - interval '24 hours') s
 where t.id = :tenant_id;

-- name: counts
-- Bytes are the mean of the newest thousand rows, times the number of rows, without indexes.
select 'receipts' as name, n.rows, (n.rows * coalesce(s.mean, 0))::bigint as bytes
  from (select count(*) as rows from searches where tenant_id = :tenant_id) n
 cross join (select avg(180 + pg_column_size(receipt) + coalesce(pg_column_size(ranking), 0)) as mean
               from (select receipt, ranking from searches where tenant_id = :tenant_id order by at desc limit 1000) l) s
union all
select 'feedback', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from feedback where tenant_id = :tenant_id) n
 cross join (select avg(120 + coalesce(pg_column_size(query), 0)) as mean
               from (select query from feedback where tenant_id = :tenant_id limit 1000) l) s
union all
select 'audit', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from audit where tenant_id = :tenant_id) n
 cross join (select avg(140 + pg_column_size(subject_ids) + pg_column_size(detail)) as mean
               from (select subject_ids, detail from audit
                      where tenant_id = :tenant_id order by at desc, id desc limit 1000) l) s
union all
select 'saved_searches', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from saved_searches where tenant_id = :tenant_id) n
 cross join (select avg(140 + pg_column_size(request)) as mean
               from (select request from saved_searches where tenant_id = :tenant_id limit 1000) l) s
union all
select 'deliveries', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from deliveries where tenant_id = :tenant_id) n
 cross join (select avg(220 + pg_column_size(finding)) as mean
               from (select finding from deliveries where tenant_id = :tenant_id limit 1000) l) s
union all
select 'former_versions', n.rows, (n.rows * coalesce(s.mean, 0))::bigint
  from (select count(*) as rows from former_entries where tenant_id = :tenant_id) n
 cross join (select avg(pg_column_size(f.*)) as mean
               from (select * from former_entries where tenant_id = :tenant_id order by valid_until desc limit 1000) f) s;

-- name: drop_receipts
delete from searches
 where tenant_id = :tenant_id
   and id = any (array(select s.id from searches s where s.tenant_id = :tenant_id order by s.at, s.id
                        limit least(:batch::bigint, greatest(0, (select count(*) from searches c where c.tenant_id = :tenant_id)
                                                                - :most::bigint))));

-- name: drop_feedback
delete from feedback f
 using (select o.search_id, o.entry_id, o.subject from feedback o where o.tenant_id = :tenant_id order by o.at
         limit least(:batch::bigint, greatest(0, (select count(*) from feedback c where c.tenant_id = :tenant_id)
                                                 - :most::bigint))) o
 where f.tenant_id = :tenant_id and f.search_id = o.search_id and f.entry_id = o.entry_id and f.subject = o.subject;

-- name: drop_deliveries
-- Only those that have ended: pending ones have a bound of their own.
delete from deliveries
 where tenant_id = :tenant_id
   and id = any (array(select d.id from deliveries d where d.tenant_id = :tenant_id and d.ended_at is not null
                        order by d.ended_at
                        limit least(:batch::bigint,
                                    greatest(0, (select count(*) from deliveries c
                                                  where c.tenant_id = :tenant_id and c.ended_at is not null)
                                                - :most::bigint))));

-- name: prune_audit
-- With a tenant its trail, else the platform's. The owner's function removes rows; the service cannot.
select tenancy.prune_audit(:most, :batch);
