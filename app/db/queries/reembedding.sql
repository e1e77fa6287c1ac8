-- A tenant's change to another embedding model, or the rebuild of its vectors with the same one: the transitions of
-- app/knowledge/reembedding/machine.py.

-- name: lock_tenant
-- Waits for current writers of entries, whose foreign keys lock the tenant, and blocks new ones.
select model_id from tenants where id = :tenant_id for update;

-- name: start
insert into model_changes (tenant_id, from_model, to_model, rate, switch_at)
values (:tenant_id, :from_model, :to_model, :rate, :switch_at_overlap);

-- name: adjust
update model_changes set rate = :rate, switch_at = :switch_at_overlap where tenant_id = :tenant_id;

-- name: fetch
-- The change, and the progress of the model that is not in use (`other`). A ready change is `switched` while the tenant
-- uses the new model; so is a rebuild, in which both models are the one in use.
select c.from_model, c.to_model, c.rate, c.switch_at as switch_at_overlap, c.visited, c.visited_all, c.comparison,
       c.started_at, c.ready_at, c.switched_at, c.refused as rebuild_refused, c.failure, t.model_id as current, o.id as other,
       case when c.state = 'ready' and t.model_id = c.to_model then 'switched' else c.state end as state,
       old.provider as old_provider, old.name as old_name, old.dimensions as old_dimensions,
       old.max_tokens as old_max_tokens, old.similarity_threshold as old_similarity_threshold,
       old.centre as old_centre,
       new.provider as new_provider, new.name as new_name, new.dimensions as new_dimensions,
       new.max_tokens as new_max_tokens, new.similarity_threshold as new_similarity_threshold,
       new.centre as new_centre,
       (select coalesce(sum(entries), 0)::bigint from corpus_statistics s
         where s.tenant_id = :tenant_id and s.principal = any (current_principals())) as entries,
       (select count(*) from pending_embeddings p
         where p.tenant_id = :tenant_id and p.model_id = o.id and p.attempts < 5) as waiting,
       (select count(*) from pending_embeddings p
         where p.tenant_id = :tenant_id and p.model_id = o.id and p.attempts >= 5) as refused,
       coalesce(v.passages, 0) as passages, coalesce(v.index_state, 'none') as index_state,
       (select count(*) from jobs j where j.tenant_id = :tenant_id and j.kind = 'reembed' and j.state = 'running'
                                      and j.lease_until > clock_timestamp()) as workers
  from model_changes c
  join tenants t on t.id = c.tenant_id
  join embedding_models old on old.id = c.from_model
  join embedding_models new on new.id = c.to_model
 cross join lateral (select case t.model_id when c.to_model then c.from_model else c.to_model end as id) o
  left join vector_statistics v on v.tenant_id = c.tenant_id and v.model_id = o.id
 where c.tenant_id = :tenant_id;

-- name: visit
-- Queues the next entries, by id, for vectors of the model, if they have none.
with next as materialized (
  select e.id from entries e cross join model_changes c
   where c.tenant_id = :tenant_id and e.tenant_id = :tenant_id and e.id > c.place order by e.id limit :limit
), lacking as materialized (
  -- Locked: an entry that is being deleted would no longer exist when its row in the queue is written.
  select e.id from entries e
   where e.tenant_id = :tenant_id and e.id in (select id from next)
     and not exists (select from embeddings k
                      where k.tenant_id = :tenant_id and k.entry_id = e.id and k.model_id = :model_id)
   order by e.id for key share of e
), queued as (
  insert into pending_embeddings (tenant_id, model_id, entry_id)
  select :tenant_id, :model_id, l.id from lacking l on conflict do nothing
)
update model_changes c
   set place = coalesce((select id from next order by id desc limit 1), c.place),
       visited = c.visited + (select count(*) from next),
       visited_all = (select count(*) from next) < :limit
 where c.tenant_id = :tenant_id and c.state = 'filling' and not c.visited_all;

-- name: declare_ready
update model_changes set state = 'ready', ready_at = clock_timestamp(), comparison = :comparison::jsonb
 where tenant_id = :tenant_id and state = 'filling' and to_model = :model_id;

-- name: lags
-- Entries that a search with the model would miss although the model in use finds them.
select count(*) from pending_embeddings p join tenants t on t.id = p.tenant_id
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.attempts < 5
   and not exists (select from pending_embeddings q
                    where q.tenant_id = :tenant_id and q.model_id = t.model_id and q.entry_id = p.entry_id);

-- name: use_model
update tenants set model_id = :model_id where id = :tenant_id;

-- name: note_switch
update model_changes set switched_at = clock_timestamp() where tenant_id = :tenant_id;

-- name: next_texts
-- The next entries of a rebuild, by id, whether or not they have vectors.
select e.id as entry_id, e.title, e.content, e.text_hash,
       case when e.asset_id is not null then e.metadata -> 'parts' end as parts
  from model_changes c join entries e on e.tenant_id = :tenant_id and e.id > c.place
 where c.tenant_id = :tenant_id and c.state = 'filling' and c.from_model = c.to_model
 order by e.id limit :limit;

-- name: advance
-- The entries up to `place` have new vectors. Another worker that was here before has moved the place: nothing is counted
-- twice.
update model_changes set place = :place, visited = visited + :visited, refused = refused + :refused
 where tenant_id = :tenant_id and state = 'filling' and place < :place;

-- name: finish_rebuild
update model_changes set state = 'ready', visited_all = true, ready_at = clock_timestamp(), switched_at = clock_timestamp()
 where tenant_id = :tenant_id and state = 'filling' and from_model = to_model;

-- name: end_rebuild
delete from model_changes where tenant_id = :tenant_id and from_model = to_model;

-- name: note_failure
update model_changes set failure = :failure where tenant_id = :tenant_id and failure is distinct from :failure;

-- name: begin_drop
update model_changes set state = 'dropping' where tenant_id = :tenant_id and from_model <> to_model;

-- name: drop_batch
-- Never vectors of the model in use.
delete from embeddings where tenant_id = :tenant_id and model_id = :model_id and (entry_id, passage) in (
  select entry_id, passage from embeddings
   where tenant_id = :tenant_id and model_id = :model_id
     and :model_id <> (select model_id from tenants where id = :tenant_id) limit :limit);

-- name: drop_pending
delete from pending_embeddings where tenant_id = :tenant_id and model_id = :model_id;

-- name: drop_statistics
delete from vector_statistics where tenant_id = :tenant_id and model_id = :model_id;

-- name: finish
delete from model_changes where tenant_id = :tenant_id and state = 'dropping';

-- name: count_visible
select count(*) from (
  select from entries e
   where e.tenant_id = :tenant_id and is_live(e.quarantined, e.expires_at, now()) and e.superseded_by_id is null
   limit :limit) e;

-- name: recent_queries
-- Saved searches first, then the latest queries, each once; receipts contain queries only if the tenant keeps them.
select q.query as text, null::uuid as entry_id
  from (
    select s.request ->> 'query' as query, 1 as place, s.created_at as at from saved_searches s where s.tenant_id = :tenant_id
    union all
    select r.receipt ->> 'query', 2, r.at
      from (select receipt, at from searches where tenant_id = :tenant_id and receipt ? 'query'
             order by at desc limit 1000) r
  ) q
 where q.query is not null
 group by q.query order by min(q.place), max(q.at) desc limit :limit;

-- name: sampled_titles
-- Titles of entries, or the beginning of the text if there is no title, each with its entry. The hash gives a sample of
-- all entries that is the same each time.
select coalesce(e.title, substring(e.content from 1 for 120)) as text, e.id as entry_id
  from entries e
 where e.tenant_id = :tenant_id and is_live(e.quarantined, e.expires_at, now()) and e.superseded_by_id is null
 order by e.title is null, md5(e.id::text) limit :limit;
