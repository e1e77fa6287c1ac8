-- name: refresh_lexemes
-- Document frequencies of lexemes in at least :least entries; ts_stat reads each tsvector of the tenant once.
with counted as (
  select word, ndoc from ts_stat(format(
    'select lexemes from public.entries where tenant_id = %L', :tenant_id::uuid))
   where ndoc >= :least
), gone as (
  delete from lexeme_statistics l where l.tenant_id = :tenant_id and l.lexeme not in (select word from counted)
)
insert into lexeme_statistics (tenant_id, lexeme, entries)
select :tenant_id, word, ndoc from counted
on conflict (tenant_id, lexeme) do update set entries = excluded.entries;

-- name: reset_changes
update corpus_statistics set changes = 0 where tenant_id = :tenant_id;

-- name: due_work
-- What the tenant's growth calls for: new word statistics after a tenth has changed, an index past the exact size.
select (select coalesce(sum(changes), 0) > greatest(:least_entries, 0.1 * coalesce(sum(entries), 0))
          from corpus_statistics where tenant_id = :tenant_id) as lexemes,
       exists (select from vector_statistics v join tenants t on t.id = v.tenant_id and t.model_id = v.model_id
                where v.tenant_id = :tenant_id and v.passages > :exact_limit and v.index_state <> 'ready') as vectors,
       exists (select from pending_embeddings p join tenants t on t.id = p.tenant_id and t.model_id = p.model_id
                where p.tenant_id = :tenant_id and p.attempts < 5) as embeddings,
       exists (select from model_changes c
                where c.tenant_id = :tenant_id
                  and (c.state <> 'ready'
                       or exists (select from pending_embeddings p join tenants t on t.id = p.tenant_id
                                   where p.tenant_id = :tenant_id and p.attempts < 5 and p.model_id <> t.model_id
                                     and p.model_id in (c.from_model, c.to_model)))) as model_change;

-- name: overview
select (select coalesce(sum(entries), 0) from corpus_statistics where tenant_id = :tenant_id) as entries,
       (select coalesce(json_object_agg(entry_type, n), '{}')
          from (select entry_type, count(*) as n from entries where tenant_id = :tenant_id group by entry_type) t)
         as entries_by_type,
       (select coalesce(json_object_agg(language, entries), '{}') from corpus_statistics
         where tenant_id = :tenant_id and entries > 0) as entries_by_language,
       (select coalesce(json_object_agg(status, n), '{}')
          from (select status, count(*) as n from assets where tenant_id = :tenant_id group by status) t)
         as assets_by_status,
       (select count(*) from pending_embeddings p join tenants t on t.id = p.tenant_id and t.model_id = p.model_id
         where p.tenant_id = :tenant_id) as pending_embeddings,
       (select count(*) from jobs where tenant_id = :tenant_id) as jobs,
       (select count(*) from searches where tenant_id = :tenant_id and at > clock_timestamp() - interval '24 hours')
         as searches_24h,
       (select coalesce(avg(fallback::integer), 0) from searches
         where tenant_id = :tenant_id and at > clock_timestamp() - interval '24 hours')::double precision
         as fallback_rate_24h,
       (select count(*) from searches where tenant_id = :tenant_id and at > clock_timestamp() - interval '24 hours'
           and result_count = 0) as searches_without_results_24h;
