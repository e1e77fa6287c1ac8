-- Vectors of entries, and entries that wait for vectors.

-- name: mark_pending
insert into pending_embeddings (tenant_id, model_id, entry_id)
select :tenant_id, t.model_id, i.id from tenants t, unnest(:ids::uuid[]) i (id) where t.id = :tenant_id
on conflict do nothing;

-- name: drop_vectors
delete from embeddings where tenant_id = :tenant_id and entry_id = any (:ids::uuid[]);

-- name: copy_known
-- Vectors of a text that the tenant has embedded before are copied, not recomputed; of another entry with readers only if they
-- are the same: otherwise the time would tell of its text. Locks as in `store`.
with wanted as (
  select p.entry_id, p.model_id, e.text_hash, e.readers
    from pending_embeddings p join entries e on e.tenant_id = p.tenant_id and e.id = p.entry_id
   where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id = any (:ids::uuid[])
   order by e.id for share of e
), known as (
  select w.entry_id, source.entry_id as source_id, w.text_hash, w.readers
    from wanted w cross join lateral (
      select k.entry_id from embeddings k
       where k.tenant_id = :tenant_id and k.text_hash = w.text_hash and k.model_id = w.model_id
         and (k.readers is null or k.readers = w.readers)
       limit 1) source
), state as materialized (
  select v.index_state <> 'none' as in_index
    from (select count(*) from known) locked cross join vector_statistics v
   where v.tenant_id = :tenant_id and v.model_id = :model_id
     for no key update of v
), copied as (
  insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding, readers)
  select :tenant_id, n.entry_id, :model_id, k.passage, k.text_hash, k.char_start, k.char_end,
         coalesce((select in_index from state), false), k.embedding, n.readers
    from known n join embeddings k on k.tenant_id = :tenant_id and k.entry_id = n.source_id and k.model_id = :model_id
  on conflict do nothing
)
delete from pending_embeddings p using known n
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id = n.entry_id
returning p.entry_id;

-- name: pending
select p.entry_id, e.title, e.content, e.text_hash, case when e.asset_id is not null then e.metadata -> 'parts' end as parts
  from pending_embeddings p join entries e on e.tenant_id = p.tenant_id and e.id = p.entry_id
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.attempts < 5
   and (:ids::uuid[] is null or p.entry_id = any (:ids::uuid[])) and p.entry_id <> all (:without::uuid[])
 order by p.created_at, p.entry_id limit :limit;

-- name: store
-- Entries of unknown texts get no vectors.
--
-- The share lock makes changes of the text wait, or reveals them: a vector of an old text is never stored. Entries
-- are locked before the counter, in the same order as by every writer; the lock on the counter keeps index_state from
-- changing between the read and the insert.
with current as materialized (
  select e.id, e.text_hash, e.readers from entries e
   where e.tenant_id = :tenant_id and e.id = any (:entry_id::uuid[] || :unknown_id::uuid[]) order by e.id for share
), state as materialized (
  select v.index_state <> 'none' as in_index
    from (select count(*) from current) locked cross join vector_statistics v
   where v.tenant_id = :tenant_id and v.model_id = :model_id
     for no key update of v
), stored as (
  insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding, readers)
  select :tenant_id, u.entry_id, :model_id, u.passage, u.text_hash, u.char_start, u.char_end,
         coalesce((select in_index from state), false), u.embedding, c.readers
    from unnest(:entry_id::uuid[], :passage::integer[], :text_hash::bytea[], :char_start::integer[],
                :char_end::integer[], :vector::halfvec[]) u (entry_id, passage, text_hash, char_start, char_end, embedding)
    join current c on c.id = u.entry_id and c.text_hash = u.text_hash
  on conflict do nothing
)
delete from pending_embeddings p
 using current c, unnest(:entry_id::uuid[] || :unknown_id::uuid[], :text_hash::bytea[] || :unknown_hash::bytea[]) u (entry_id, text_hash)
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id = c.id
   and u.entry_id = c.id and u.text_hash = c.text_hash;

-- name: replace
-- As `store`, but over the vectors that the entries have: a search sees the old vectors of an entry or its new ones. Equal
-- vectors are left as they are.
with current as materialized (
  select e.id, e.text_hash, e.readers from entries e
   where e.tenant_id = :tenant_id and e.id = any (:entry_id::uuid[] || :unknown_id::uuid[]) order by e.id for share
), state as materialized (
  select v.index_state <> 'none' as in_index
    from (select count(*) from current) locked cross join vector_statistics v
   where v.tenant_id = :tenant_id and v.model_id = :model_id
     for no key update of v
), made as materialized (
  select u.*, c.readers
    from unnest(:entry_id::uuid[], :passage::integer[], :text_hash::bytea[], :char_start::integer[],
                :char_end::integer[], :vector::halfvec[]) u (entry_id, passage, text_hash, char_start, char_end, embedding)
    join current c on c.id = u.entry_id and c.text_hash = u.text_hash
), visited as materialized (
  select m.entry_id from made m
  union
  select c.id from current c
    join unnest(:unknown_id::uuid[], :unknown_hash::bytea[]) u (entry_id, text_hash) on u.entry_id = c.id and u.text_hash = c.text_hash
), removed as (
  delete from embeddings k
   where k.tenant_id = :tenant_id and k.model_id = :model_id and k.entry_id in (select entry_id from visited)
     and not exists (select from made m where m.entry_id = k.entry_id and m.passage = k.passage)
), stored as (
  insert into embeddings as k
         (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding, readers)
  select :tenant_id, m.entry_id, :model_id, m.passage, m.text_hash, m.char_start, m.char_end,
         coalesce((select in_index from state), false), m.embedding, m.readers
    from made m
  on conflict (tenant_id, entry_id, model_id, passage) do update
     set text_hash = excluded.text_hash, char_start = excluded.char_start, char_end = excluded.char_end,
         embedding = excluded.embedding
   where (k.text_hash, k.char_start, k.char_end) <> (excluded.text_hash, excluded.char_start, excluded.char_end)
      or k.embedding <> excluded.embedding
)
delete from pending_embeddings p
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id in (select entry_id from visited);

-- name: count_pending
select count(*) from pending_embeddings where tenant_id = :tenant_id;

-- name: note_failure
update pending_embeddings set attempts = attempts + 1
 where tenant_id = :tenant_id and model_id = :model_id and entry_id = any (:ids::uuid[]);

-- name: find
-- The index of a model: `valid` is null if there is none.
select coalesce(v.passages, 0) as passages, coalesce(v.index_state, 'none') as state,
       (select i.indisvalid and i.indisready from pg_index i
         where i.indexrelid = to_regclass('public.embeddings_hnsw_' || :model_id::integer || '_'
                                          || replace(:tenant_id::uuid::text, '-', ''))) as valid
  from (values (true)) always (row)
  left join vector_statistics v on v.tenant_id = :tenant_id and v.model_id = :model_id;

-- name: strays
-- Models of which the tenant has an index and no longer any vectors.
select m.id from embedding_models m
 where to_regclass('public.embeddings_hnsw_' || m.id || '_' || replace(:tenant_id::uuid::text, '-', '')) is not null
   and not exists (select from tenants t where t.id = :tenant_id and t.model_id = m.id)
   and not exists (select from vector_statistics v where v.tenant_id = :tenant_id and v.model_id = m.id)
 order by m.id;

-- name: owners
select distinct x.tenant_id
  from pg_class c
 cross join lateral (select right(c.relname, 32)::uuid as tenant_id) x
 where c.relkind = 'i' and c.relnamespace = 'public'::regnamespace
   and c.relname ~ '^embeddings_hnsw_[0-9]+_[0-9a-f]{32}$';

-- name: deleted
select x.tenant_id from unnest(:tenants::uuid[]) x (tenant_id)
 where x.tenant_id not in (select t.id from tenancy.list_tenants() t);

-- name: create
select tenancy.create_vector_index(:model_id);

-- name: drop
select tenancy.drop_vector_index(:model_id);

-- name: take_turn
-- One transaction at a time moves vectors into an index, in the whole database.
select pg_try_advisory_xact_lock(:key::bigint);

-- name: start
update vector_statistics set index_state = 'building'
 where tenant_id = :tenant_id and model_id = :model_id and index_state = 'none';

-- name: give_up
update vector_statistics set index_state = 'none'
 where tenant_id = :tenant_id and model_id = :model_id and index_state <> 'none';

-- name: clear
update embeddings set in_index = false
 where tenant_id = :tenant_id and model_id = :model_id and (entry_id, passage) in (
   select entry_id, passage from embeddings
    where tenant_id = :tenant_id and model_id = :model_id and in_index limit :limit);

-- name: move
update embeddings set in_index = true
 where tenant_id = :tenant_id and model_id = :model_id and (entry_id, passage) in (
   select entry_id, passage from embeddings
    where tenant_id = :tenant_id and model_id = :model_id and not in_index limit :limit);

-- name: finish
update vector_statistics set index_state = 'ready'
 where tenant_id = :tenant_id and model_id = :model_id and index_state = 'building'
   and not exists (select from embeddings where tenant_id = :tenant_id and model_id = :model_id and not in_index);
