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
                    readers, writers)
values (:tenant_id, :id, :source, :external_id, :name, :media_type, :byte_size, :sha256, :original, :tags, :roles,
        :metadata::jsonb, :readers::text[], :writers::text[])
on conflict do nothing;

-- name: replace
update assets
   set name = :name, media_type = :media_type, byte_size = :byte_size, sha256 = :sha256, original = :original,
       tags = :tags, roles = :roles, metadata = :metadata::jsonb, readers = :readers::text[],
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
select id, source, external_id, name, media_type, byte_size, coalesce(given_title, title) as title, total_pages,
       pages_without_text, tags, roles, metadata, readers, writers, status, error, round(progress::numeric, 3)::double precision as progress, generation,
       (select count(*) from entries e where e.tenant_id = :tenant_id and e.asset_id = a.id) as chunks,
       coalesce(flags, '{}') as flags,
       (select count(*) from entries e where e.tenant_id = :tenant_id and e.asset_id = a.id and e.quarantined)
         as quarantined_chunks,
       (select s.id from assets s
         where s.tenant_id = :tenant_id and s.sha256 = a.sha256 and (s.created_at, s.id) < (a.created_at, a.id)
         order by s.created_at, s.id limit 1) as duplicate_of,
       version, created_at, updated_at
  from assets a where tenant_id = :tenant_id and id = any (:ids::uuid[]);

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
                  pages_without_text = :pages_without_text::integer[], flags = null, updated_at = clock_timestamp()
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
