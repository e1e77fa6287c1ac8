-- The HNSW indexes that large tenants have of their own: what exists, and the steps to build and to give up one.

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
