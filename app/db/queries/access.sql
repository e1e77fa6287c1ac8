-- Who may read and change entries and assets: selections for a change, and overviews. Expired, superseded and quarantined
-- entries count, too.

-- name: entries
-- Entries that are not chunks.
select e.id, e.readers, e.writers, e.version from entries e
 where e.tenant_id = :tenant_id and e.asset_id is null and (:after::uuid is null or e.id > :after)
   and (:ids::uuid[] is null or e.id = any (:ids::uuid[]))
   and (:tags::text[] is null or case when :all_tags then e.tags @> :tags::text[] else e.tags && :tags::text[] end)
   and (:entry_types::text[] is null or e.entry_type = any (:entry_types::text[]))
   and (:principal::text is null or :principal = any (e.readers) or :principal = any (e.writers))
   and entry_fulfils(e, :filter)
 order by e.id limit :limit;

-- name: linked
-- Selected entries that link to the entry :id, and those to which it links.
select e.id, e.readers, e.writers, e.version, e.id = any (o.source_ids || o.parent_id || o.superseded_by_id) as is_target
  from entries o
  join entries e on e.tenant_id = :tenant_id and e.id <> o.id and e.asset_id is null
   and (e.id = any (o.source_ids || o.parent_id || o.superseded_by_id)
        or e.parent_id = o.id or e.superseded_by_id = o.id or e.source_ids @> array[o.id])
 where o.tenant_id = :tenant_id and o.id = :id
   and (:ids::uuid[] is null or e.id = any (:ids::uuid[]))
   and (:tags::text[] is null or case when :all_tags then e.tags @> :tags::text[] else e.tags && :tags::text[] end)
   and (:entry_types::text[] is null or e.entry_type = any (:entry_types::text[]))
   and (:principal::text is null or :principal = any (e.readers) or :principal = any (e.writers))
   and entry_fulfils(e, :filter)
 limit :limit;

-- name: assets
-- An asset fulfils the condition if one of its chunks does.
select a.id, a.readers, a.writers, a.version from assets a
 where a.tenant_id = :tenant_id and (:after::uuid is null or a.id > :after)
   and (:ids::uuid[] is null or a.id = any (:ids::uuid[]))
   and (:tags::text[] is null or case when :all_tags then a.tags @> :tags::text[] else a.tags && :tags::text[] end)
   and (:entry_types::text[] is null or 'chunk' = any (:entry_types::text[]))
   and (:principal::text is null or :principal = any (a.readers) or :principal = any (a.writers))
   and ((:filter::entry_filter).condition is null
        or exists (select from entries e where e.tenant_id = :tenant_id and e.asset_id = a.id and entry_fulfils(e, :filter)))
 order by a.id limit :limit;

-- name: entry
select 'entry' as kind, e.id, coalesce(e.title, left(e.content, 100)) as name, e.readers, e.writers, e.asset_id, a.source
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = :id;

-- name: asset
select 'asset' as kind, a.id, coalesce(a.given_title, a.title, a.name) as name, a.readers, a.writers, null::uuid as asset_id,
       a.source
  from assets a where a.tenant_id = :tenant_id and a.id = :id;

-- name: counts
-- What the transaction sees, counted up to `most`.
select (select count(*) from (select from entries e where e.tenant_id = :tenant_id and e.asset_id is null limit :most) n)
         as entries,
       (select count(*) from (select from assets a where a.tenant_id = :tenant_id limit :most) n) as assets;

-- name: restricted
-- What the transaction sees and not all readers of the tenant do, without chunks.
select k.kind, k.id, k.name, k.readers, k.writers, null::uuid as asset_id, k.source
  from (select 'entry' as kind, e.id, coalesce(e.title, left(e.content, 100)) as name, e.readers, e.writers, null as source
          from entries e
         where e.tenant_id = :tenant_id and e.readers is not null and e.asset_id is null
        union all
        select 'asset', a.id, coalesce(a.given_title, a.title, a.name), a.readers, a.writers, a.source from assets a
         where a.tenant_id = :tenant_id and a.readers is not null) k
 where :after::uuid is null or k.id > :after
 order by k.id limit :limit;
