-- Assets, and the entries that are chunks of them.

-- name: find_same
select id, sha256, byte_size from assets
 where tenant_id = :tenant_id
   and case when :external_id::text is null then sha256 = :sha256 else external_id = :external_id end
 order by (external_id is null) desc, created_at limit 1 for update;

-- name: insert
insert into assets (tenant_id, id, external_id, name, media_type, byte_size, sha256, original, tags, roles, metadata)
values (:tenant_id, :id, :external_id, :name, :media_type, :byte_size, :sha256, :original, :tags, :roles, :metadata::jsonb)
on conflict do nothing;

-- name: replace
update assets
   set name = :name, media_type = :media_type, byte_size = :byte_size, sha256 = :sha256, original = :original,
       tags = :tags, roles = :roles, metadata = :metadata::jsonb, status = 'pending', error = null, progress = 0,
       generation = generation + 1, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id;

-- name: fetch
select id, external_id, name, media_type, byte_size, title, total_pages, tags, roles, metadata, status,
       error, round(progress::numeric, 3)::double precision as progress, generation,
       (select count(*) from entries e where e.tenant_id = :tenant_id and e.asset_id = a.id) as chunks,
       created_at, updated_at
  from assets a where tenant_id = :tenant_id and id = any (:ids::uuid[]);

-- name: list
select created_at as at, id from assets
 where tenant_id = :tenant_id
   and (:before_id::uuid is null or (created_at, id) < (:before_at::timestamptz, :before_id::uuid))
   and (:status::text is null or status = :status)
 order by created_at desc, id desc limit :limit;

-- name: original
select name, media_type, original as data, generation, tags, roles, metadata from assets
 where tenant_id = :tenant_id and id = :id;

-- name: extracted_text
select extracted_text as text from assets where tenant_id = :tenant_id and id = :id;

-- name: set_progress
-- Only for the worker that holds the job: a worker presumed dead must not mark a finished asset as unfinished.
update assets set status = 'processing', progress = :progress
 where tenant_id = :tenant_id and id = :id and generation = :generation
   and exists (select from jobs j where j.tenant_id = :tenant_id and j.id = :job_id and j.fence = :fence
                  and j.state = 'running');

-- name: finish
update assets set status = 'indexed', error = null, progress = 1, title = :title, extracted_text = :text,
                  total_pages = :total_pages, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and generation = :generation;

-- name: fail
update assets set status = 'failed', error = :error, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and generation = :generation;

-- name: retry
update assets set status = 'pending', error = null, progress = 0, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and status = 'failed';

-- name: delete
delete from assets where tenant_id = :tenant_id and id = :id;

-- name: delete_chunks
delete from entries where tenant_id = :tenant_id and asset_id = :id;

-- name: insert_chunks
insert into entries (tenant_id, id, entry_type, title, content, tags, roles, metadata, language, asset_id, chunk_index,
                     content_hash, text_hash)
select :tenant_id, c.id, 'chunk', c.title, c.content, :tags, :roles, c.metadata, :language, :asset_id, c.chunk_index,
       sha256(convert_to(c.content, 'UTF8')), c.text_hash
  from unnest(:ids::uuid[], :titles::text[], :contents::text[], :metadata::jsonb[], :indexes::integer[],
              :text_hashes::bytea[]) c (id, title, content, metadata, chunk_index, text_hash);

-- name: insert_vectors
-- As `store` of embeddings.sql, for chunks that are not yet visible to other transactions: no locks are needed.
with state as materialized (
  select v.index_state <> 'none' as in_index from vector_statistics v
   where v.tenant_id = :tenant_id and v.model_id = :model_id
     for no key update of v
), stored as (
  insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding)
  select :tenant_id, u.entry_id, :model_id, u.passage, u.text_hash, u.char_start, u.char_end,
         coalesce((select in_index from state), false), u.embedding
    from unnest(:entry_ids::uuid[], :passages::integer[], :text_hashes::bytea[], :char_starts::integer[],
                :char_ends::integer[], :vectors::halfvec[]) u (entry_id, passage, text_hash, char_start, char_end, embedding)
)
delete from pending_embeddings p
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id = any (:entry_ids::uuid[]);

-- name: known_vectors
select distinct on (k.text_hash, k.passage) k.text_hash, k.passage, k.char_start, k.char_end, k.embedding as vector
  from embeddings k
 where k.tenant_id = :tenant_id and k.model_id = :model_id and k.text_hash = any (:text_hashes::bytea[])
 order by k.text_hash, k.passage;
