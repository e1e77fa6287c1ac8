-- Assets.

-- name: find_same_id
-- Of several with the external_id the one with the same readers is first; the same bytes with other readers, if they are :given,
-- are another asset. It is not locked: a lock would skip those that the caller may read and not change.
select id from assets
 where tenant_id = :tenant_id and source is null
   and case when :external_id::text is null then sha256 = :sha256 and (not :given or readers is not distinct from :readers::text[])
            else external_id = :external_id end
 order by (external_id is null) desc, (readers is not distinct from :readers::text[]) desc, created_at limit 1;

-- name: find_twin
-- The asset with which this one would share its identity if it had these readers.
select o.id from assets a join assets o on o.tenant_id = :tenant_id and o.id <> a.id
 where a.tenant_id = :tenant_id and a.id = :id and a.source is null and o.source is null
   and o.readers is not distinct from :readers::text[] and o.external_id is not distinct from a.external_id
   and (a.external_id is not null or o.sha256 = a.sha256);

-- name: insert
insert into assets (tenant_id, id, source, external_id, name, media_type, byte_size, sha256, original, tags, roles, metadata,
                    encoding, readers, writers)
values (:tenant_id, :id, :source, :external_id, :name, :media_type, :byte_size, :sha256, :original, :tags, :roles,
        :metadata::jsonb, :encoding, :readers::text[], :writers::text[])
on conflict do nothing;

-- name: replace
update assets
   set name = :name, media_type = :media_type, byte_size = :byte_size, sha256 = :sha256, original = :original,
       tags = :tags, roles = :roles, metadata = :metadata::jsonb, encoding = :encoding, readers = :readers::text[],
       writers = :writers::text[], status = 'pending', error = null, progress = 0,
       generation = generation + 1, version = version + 1, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id;

-- name: lock
select id, sha256, byte_size, name, given_title as title, title as own_title, tags, roles, metadata,
       readers, writers, source, version
  from assets
 where tenant_id = :tenant_id and id = :id for update;

-- name: change
update assets
   set name = :name, tags = :tags, roles = :roles, metadata = :metadata::jsonb, given_title = :title,
       readers = :readers::text[], writers = :writers::text[],
       version = version + 1, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id;

-- name: fetch
select {asset}
  from (
    select {a.stored_asset except title, progress, flags}, coalesce(a.given_title, a.title) as title,
           round(a.progress::numeric, 3)::double precision as progress, coalesce(a.flags, '{}') as flags,
           (select count(*) from entries e where e.tenant_id = :tenant_id and e.asset_id = a.id) as chunks,
           (select count(*) from entries e where e.tenant_id = :tenant_id and e.asset_id = a.id and e.quarantined)
             as quarantined_chunks,
           (select s.id from assets s
             where s.tenant_id = :tenant_id and s.sha256 = a.sha256 and (s.created_at, s.id) < (a.created_at, a.id)
             order by s.created_at, s.id limit 1) as duplicate_of
      from assets a where a.tenant_id = :tenant_id and a.id = any (:ids::uuid[])) a;

-- name: list
-- Names are ordered without regard to case, by their first 100 characters: a cursor contains them.
select k.{column} as key, k.id, k.bytes
  from (
    select id, created_at, updated_at, left(lower(name), 100) as name, octet_length(metadata::text) as bytes from assets
     where tenant_id = :tenant_id and (:status::text is null or status = :status)) k
 where :after_id::uuid is null or (k.{column}, k.id) {beyond} (:after_key, :after_id)
 order by k.{column} {direction}, k.id {direction} limit :limit;

-- name: lock_same_bytes
-- Assets with the same bytes are indexed one after another, so that the chunks of the earlier asset are visible to the later.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || encode(sha256, 'hex'), 0)) from assets
 where tenant_id = :tenant_id and id = :id;

-- name: set_progress
-- Only for the worker that holds the job: a worker presumed dead must not mark a finished asset as unfinished.
update assets set status = 'processing', progress = :progress
 where tenant_id = :tenant_id and id = :id and generation = :generation
   and exists (select from jobs j where j.tenant_id = :tenant_id and j.id = :job_id and j.fence = :fence
                  and j.state = 'running');

-- name: finish
-- Returns what the chunks inherit: callers can change it until then.
update assets set status = 'indexed', error = null, progress = 1, title = :title, extracted_text = :text,
                  total_pages = :total_pages, outline = :outline::jsonb,
                  pages_without_text = :pages_without_text::integer[],
                  places_without_text = :places_without_text::integer[], encoding = :encoding,
                  encoding_guessed = :encoding_guessed, removed_controls = :removed_controls, flags = null, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and generation = :generation
returning tags, roles, metadata, given_title, source;

-- name: fail
update assets set status = 'failed', error = :error, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and generation = :generation
returning source;

-- name: retry
update assets set status = 'pending', error = null, progress = 0, updated_at = clock_timestamp()
 where tenant_id = :tenant_id and id = :id and status = 'failed';

-- name: delete
delete from assets where tenant_id = :tenant_id and id = :id;

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
   where e.tenant_id = :tenant_id and e.id = any (:entry_id::uuid[]) and e.readers is not null
), stored as (
  insert into embeddings (tenant_id, entry_id, model_id, passage, text_hash, char_start, char_end, in_index, embedding, readers)
  select :tenant_id, u.entry_id, :model_id, u.passage, u.text_hash, u.char_start, u.char_end,
         coalesce((select in_index from state), false), u.embedding, o.readers
    from unnest(:entry_id::uuid[], :passage::integer[], :text_hash::bytea[], :char_start::integer[],
                :char_end::integer[], :vector::halfvec[]) u (entry_id, passage, text_hash, char_start, char_end, embedding)
    left join owners o on o.id = u.entry_id
)
delete from pending_embeddings p
 where p.tenant_id = :tenant_id and p.model_id = :model_id and p.entry_id = any (:entry_id::uuid[]);

-- name: known_vectors
select distinct on (k.text_hash, k.passage) k.entry_id, k.passage, k.text_hash, k.char_start, k.char_end, k.embedding as vector
  from embeddings k
 where k.tenant_id = :tenant_id and k.model_id = :model_id and k.text_hash = any (:text_hashes::bytea[])
   and (k.readers is null
        or k.readers = (select a.readers from assets a where a.tenant_id = :tenant_id and a.id = :asset_id))
 order by k.text_hash, k.passage;

-- name: original
select name, media_type, encoding, original as data, generation, given_title from assets where tenant_id = :tenant_id and id = :id;

-- name: content
select id, name, media_type, byte_size, sha256, generation from assets where tenant_id = :tenant_id and id = :id;

-- name: content_part
select substring(original from :start::integer for :length::integer) from assets
 where tenant_id = :tenant_id and id = :id and generation = :generation;

-- name: extracted_text
select extracted_text as text from assets where tenant_id = :tenant_id and id = :id;
