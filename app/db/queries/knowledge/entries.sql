-- Entries: reading, paging, writing, deleting, and finding related entries.

-- name: fetch
select e.id, e.entry_type, e.title, e.content, e.tags, e.roles, e.confidence, e.scope, e.parent_id, e.source_ids,
       e.superseded_by_id, e.is_verified, e.asset_id, e.external_id, e.metadata, e.language, e.expires_at, e.readers, e.writers,
       a.name as asset_name, e.chunk_index, e.quarantined,
       case when exists (select from pending_embeddings p
                           join tenants t on t.id = p.tenant_id and t.model_id = p.model_id
                          where p.tenant_id = :tenant_id and p.entry_id = e.id)
            then 'pending' else 'ready' end as embedding_status,
       e.version, e.created_at, e.updated_at
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);

-- name: lock
-- The fields that callers write, the version, and the asset.
select e.id, e.entry_type, e.title, e.content, e.tags, e.roles, e.confidence, e.scope, e.parent_id, e.source_ids,
       e.superseded_by_id, e.is_verified, e.asset_id, e.external_id, e.metadata, e.language, e.expires_at, e.readers, e.writers,
       e.version, e.quarantined
  from entries e where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) order by e.id for update;

-- name: list
-- Titles are ordered without regard to case, by their first 100 characters: a cursor contains them.
select p.key, p.id, b.bytes
  from (
    select k.{column} as key, k.id
      from (
        select e.id, e.created_at, e.updated_at, left(lower(coalesce(e.title, '')), 100) as title from entries e
         where e.tenant_id = :tenant_id
           and (:entry_type::text is null or e.entry_type = :entry_type)
           and (:tag::text is null or :tag = any (e.tags))
           and (:asset_id::uuid is null or e.asset_id = :asset_id)
           and (:external_id::text is null or e.external_id = :external_id)
           and (:source::text is null or (e.asset_id is not null) = (:source = 'asset'))
           and (:include_expired or e.expires_at is null or e.expires_at > now())
           and (:include_quarantined or not e.quarantined)) k
     where :after_id::uuid is null or (k.{column}, k.id) {beyond} (:after_key, :after_id)
     order by k.{column} {direction}, k.id {direction} limit :limit) p
 cross join lateral (
   select octet_length(e.content) + octet_length(e.metadata::text) as bytes from entries e
    where e.tenant_id = :tenant_id and e.id = p.id) b
 order by p.key {direction}, p.id {direction};

-- name: find_same
-- The entry that each draft duplicates: the one with its external_id or, for a draft without one, with its content. Of several
-- with the external_id the one with the draft's readers is first; the same content with other readers is another entry.
select d.place, same.id
  from unnest(:external_ids::text[], :content_hashes::bytea[], :readers::jsonb[], :given::boolean[])
         with ordinality d (external_id, content_hash, readers, given, place)
 cross join lateral (
   (select e.id from entries e
     where d.external_id is not null and e.tenant_id = :tenant_id and e.external_id = d.external_id
     order by coalesce(to_jsonb(e.readers), 'null') = coalesce(d.readers, 'null') desc, e.created_at, e.id)
   union all
   (select e.id from entries e
     where d.external_id is null and e.tenant_id = :tenant_id and e.content_hash = d.content_hash
       and e.external_id is null and e.asset_id is null
       and (not d.given or coalesce(to_jsonb(e.readers), 'null') = coalesce(d.readers, 'null'))
     order by e.readers is not null, e.created_at, e.id)
   union all
   (select e.id from entries e
     where d.external_id is null and e.tenant_id = :tenant_id and e.content_hash = d.content_hash
       and e.external_id is not null
       and (not d.given or coalesce(to_jsonb(e.readers), 'null') = coalesce(d.readers, 'null'))
     order by e.readers is not null, e.created_at, e.id)
   limit 1) same;

-- name: find_twin
-- The entry with which the entry :id would share its identity if it had these readers.
select o.id from entries e join entries o on o.tenant_id = :tenant_id and o.external_id = e.external_id and o.id <> e.id
 where e.tenant_id = :tenant_id and e.id = :id and o.readers is not distinct from :readers::text[]
union all
select o.id from entries e join entries o on o.tenant_id = :tenant_id and o.content_hash = e.content_hash and o.id <> e.id
 where e.tenant_id = :tenant_id and e.id = :id and o.readers is not distinct from :readers::text[]
   and e.external_id is null and o.external_id is null and o.asset_id is null
limit 1;

-- name: readers
select e.id, e.readers from entries e where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);

-- name: lock_successions
-- Until the transaction ends, other transactions of the tenant that supersede an entry wait: of two that would supersede
-- each other's entries, the second sees what the first has written.
select pg_advisory_xact_lock(hashtextextended(:tenant_id::uuid || ' successions', 0));

-- name: successor
select superseded_by_id from entries where tenant_id = :tenant_id and id = :id;

-- name: insert
-- Every writer inserts the same entries in the same order, which prevents deadlocks; their times keep the order of the
-- input.
insert into entries (tenant_id, id, entry_type, title, content, tags, roles, confidence, scope, parent_id, source_ids,
                     superseded_by_id, is_verified, metadata, language, expires_at, external_id, readers, writers, content_hash,
                     text_hash, created_at, updated_at)
select :tenant_id, r.id, r.entry_type, r.title, r.content, r.tags, r.roles, r.confidence, r.scope, r.parent_id,
       r.source_ids, r.superseded_by_id, r.is_verified, r.metadata, r.language, r.expires_at, r.external_id, r.readers, r.writers,
       sha256(convert_to(r.content, 'UTF8')), sha256(convert_to(coalesce(r.title || E'\n\n', '') || r.content, 'UTF8')),
       t.at, t.at
  from rows from (jsonb_to_recordset(:rows::jsonb) as (
         id uuid, entry_type text, title text, content text, tags text[], roles text[], confidence double precision,
         scope text, parent_id uuid, source_ids uuid[], superseded_by_id uuid, is_verified boolean, metadata jsonb,
         language text, expires_at timestamptz, external_id text, readers text[], writers text[])) with ordinality r
 cross join lateral (select statement_timestamp() + r.ordinality * interval '1 microsecond' as at) t
 order by r.external_id collate "C", r.content collate "C"
on conflict do nothing
returning id;

-- name: update
update entries e
   set entry_type = r.entry_type, title = r.title, content = r.content, tags = r.tags, roles = r.roles,
       confidence = r.confidence, scope = r.scope, parent_id = r.parent_id, source_ids = r.source_ids,
       superseded_by_id = r.superseded_by_id, is_verified = r.is_verified, metadata = r.metadata,
       language = r.language, expires_at = r.expires_at, external_id = r.external_id, readers = r.readers, writers = r.writers,
       content_hash = sha256(convert_to(r.content, 'UTF8')),
       text_hash = sha256(convert_to(coalesce(r.title || E'\n\n', '') || r.content, 'UTF8')),
       version = e.version + 1, updated_at = clock_timestamp()
  from jsonb_to_recordset(:rows::jsonb) r (
       id uuid, entry_type text, title text, content text, tags text[], roles text[], confidence double precision,
       scope text, parent_id uuid, source_ids uuid[], superseded_by_id uuid, is_verified boolean, metadata jsonb,
       language text, expires_at timestamptz, external_id text, readers text[], writers text[])
 where e.tenant_id = :tenant_id and e.id = r.id;

-- name: delete
delete from entries where tenant_id = :tenant_id and id = :id;

-- name: purge_expired
-- Only if the tenant has set a time. An entry stays while an entry that it supersedes exists: without it the older one
-- would be found again.
with gone as (
  select e.id from entries e
   where e.tenant_id = :tenant_id
     and e.expires_at < clock_timestamp() - make_interval(days => (
           select (t.settings ->> 'purge_expired_after_days')::integer from tenants t where t.id = :tenant_id))
     and not exists (select from entries o where o.tenant_id = :tenant_id and o.superseded_by_id = e.id)
   order by e.expires_at, e.id limit :limit for update skip locked
)
delete from entries e using gone g where e.tenant_id = :tenant_id and e.id = g.id
returning e.id;

-- name: related
-- The parent, then siblings (for a chunk the other chunks of the asset), then children, then its source entries and the
-- entries derived from it, then entries that share tags: explicit relations come before inferred ones. `total` counts
-- at most `most` entries of each kind.
with origin as (
  select * from entries where tenant_id = :tenant_id and id = :id
), visible as (
  select e.id, e.parent_id, e.asset_id, e.chunk_index, e.created_at
    from entries e, origin o
   where e.tenant_id = :tenant_id and e.id <> o.id
     and (e.id = o.parent_id or e.parent_id = o.parent_id or e.parent_id = o.id
          or (e.asset_id = o.asset_id and e.chunk_index between o.chunk_index - :most and o.chunk_index + :most))
     and (e.expires_at is null or e.expires_at > now()) and e.superseded_by_id is null and not e.quarantined
), ranked as (
  select v.id, 'parent' as relationship, null::integer as overlap_count, 1 as place, 0::bigint as nearness
    from visible v, origin o where v.id = o.parent_id
  union all
  select v.id, 'sibling', null, 2,
         case when v.asset_id = o.asset_id then abs(v.chunk_index - o.chunk_index) * 2
                   + (v.chunk_index < o.chunk_index)::integer
              else row_number() over (order by v.created_at, v.id) end
    from visible v, origin o
   where v.id is distinct from o.parent_id and (v.parent_id = o.parent_id or v.asset_id = o.asset_id)
  union all
  select v.id, 'child', null, 3, row_number() over (order by v.created_at, v.id)
    from visible v, origin o where v.parent_id = o.id
  union all
  select e.id, 'source', null, 4, array_position(o.source_ids, e.id)
    from origin o join entries e on e.tenant_id = :tenant_id and e.id = any (o.source_ids) and e.id <> o.id
   where (e.expires_at is null or e.expires_at > now()) and e.superseded_by_id is null and not e.quarantined
  union all
  select d.entry_id, 'derived', null, 5, d.place
    from origin o cross join lateral keyword.derived_entries(o.id, :most) with ordinality d (entry_id, place)
  union all
  select t.entry_id, 'tag_overlap', t.overlap_count, 6, row_number() over (order by t.overlap_count desc)
    from origin o cross join lateral keyword.tag_overlaps(o.tags, o.id, :most) t
), firsts as (
  select distinct on (id) id, relationship, overlap_count, place, nearness from ranked order by id, place
)
select f.id, f.relationship, f.overlap_count, count(*) over () as total from firsts f
 order by f.place, f.overlap_count desc nulls first, f.nearness, f.id limit :limit;
