-- The chunks of an asset, and their vectors.

-- name: change_chunks
-- The chunks inherit the changed fields of their asset; the others, and the metadata with a chunk's position, are kept.
-- A chunk's title is the asset's, followed by the headings above the chunk, if it has any. Returns the chunks whose text
-- is to be embedded again.
with stored as (
  select e.id, e.text_hash, e.metadata,
         case when :old_title::text is null then e.title
              when e.title is distinct from :old_title then substr(e.title, length(:old_title) + 4) end as headings
    from entries e where e.tenant_id = :tenant_id and e.asset_id = :id order by e.id for update
), wanted as materialized (
  select s.id, s.text_hash,
         case when :with_title then coalesce(:new_title || ' > ' || s.headings, :new_title, s.headings) end as title,
         :metadata::jsonb || coalesce((
           select jsonb_object_agg(m.key, m.value) from jsonb_each(s.metadata) m
            where m.key = any (:place::text[])), '{}') as metadata
    from stored s
), changed as (
  update entries e
     set tags = coalesce(:tags::text[], e.tags), roles = coalesce(:roles::text[], e.roles),
         metadata = coalesce(w.metadata, e.metadata), title = case when :with_title then w.title else e.title end,
         text_hash = case when :with_title
                          then sha256(convert_to(coalesce(w.title || E'\n\n', '') || e.content, 'UTF8'))
                          else e.text_hash end,
         version = e.version + 1, updated_at = clock_timestamp()
    from wanted w
   where e.tenant_id = :tenant_id and e.id = w.id
  returning e.id, e.text_hash <> w.text_hash as text_changed
)
select id from changed where text_changed;

-- name: delete_chunks
delete from entries where tenant_id = :tenant_id and asset_id = :id;

-- name: insert_chunks
-- `repeats`: see repeats_another(). A sibling is another indexed asset with the same bytes.
with siblings as materialized (
  select s.id from assets a
    join assets s on s.tenant_id = :tenant_id and s.sha256 = a.sha256 and s.id <> a.id and s.status = 'indexed'
   where a.tenant_id = :tenant_id and a.id = :asset_id
), owner as materialized (
  select a.readers, a.writers from assets a where a.tenant_id = :tenant_id and a.id = :asset_id
)
insert into entries (tenant_id, id, entry_type, title, content, tags, roles, metadata, language, asset_id, chunk_index,
                     content_hash, text_hash, readers, writers, repeats)
select :tenant_id, c.id, 'chunk', c.title, c.content, :tags, :roles, c.metadata, :language, :asset_id, c.chunk_index,
       sha256(convert_to(c.content, 'UTF8')), c.text_hash, (select readers from owner), (select writers from owner),
       (select coalesce(y.repeats, y.id)
          from siblings s
          join entries y on y.tenant_id = :tenant_id and y.asset_id = s.id and y.chunk_index = c.chunk_index
         where y.content_hash = sha256(convert_to(c.content, 'UTF8'))
         order by y.repeats is not null, y.id limit 1)
  from unnest(:ids::uuid[], :titles::text[], :contents::text[], :metadata::jsonb[], :indexes::integer[],
              :text_hashes::bytea[]) c (id, title, content, metadata, chunk_index, text_hash);

-- name: insert_vectors
-- As `store` of embeddings.sql, for chunks that are not yet visible to other transactions: no locks are needed.
with state as materialized (
  select v.index_state <> 'none' as in_index from vector_statistics v
   where v.tenant_id = :tenant_id and v.model_id = :model_id
     for no key update of v
), owners as materialized (
  select e.id, e.readers from entries e
   where e.tenant_id = :tenant_id and e.id = any (:entry_ids::uuid[]) and e.readers is not null
), stored as (
  insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding, readers)
  select :tenant_id, u.entry_id, :model_id, u.passage, u.text_hash, u.char_start, u.char_end,
         coalesce((select in_index from state), false), u.embedding, o.readers
    from unnest(:entry_ids::uuid[], :passages::integer[], :text_hashes::bytea[], :char_starts::integer[],
                :char_ends::integer[], :vectors::halfvec[]) u (entry_id, passage, text_hash, char_start, char_end, embedding)
    left join owners o on o.id = u.entry_id
)
delete from pending_embeddings p
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id = any (:entry_ids::uuid[]);

-- name: known_vectors
select distinct on (k.text_hash, k.passage) k.text_hash, k.passage, k.char_start, k.char_end, k.embedding as vector
  from embeddings k
 where k.tenant_id = :tenant_id and k.model_id = :model_id and k.text_hash = any (:text_hashes::bytea[])
   and (k.readers is null
        or k.readers = (select a.readers from assets a where a.tenant_id = :tenant_id and a.id = :asset_id))
 order by k.text_hash, k.passage;
