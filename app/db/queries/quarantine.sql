-- Entries that are hidden from searches because of their flags, until an admin releases them.

-- name: policy
select coalesce(settings ->> 'suspicious_content', 'flag') from tenants where id = :tenant_id;

-- name: has_releases
select exists (select from released_texts where tenant_id = :tenant_id);

-- name: judge
-- Quarantines the flagged entries among these, except those that are released, and ends the quarantine of the others.
with judged as (
  select e.id, :quarantines::boolean and e.metadata ? 'flags' and e.id <> all (:released::uuid[]) as wanted
    from entries e where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) order by e.id for update of e
)
update entries e set quarantined = j.wanted
  from judged j where e.tenant_id = :tenant_id and e.id = j.id and e.quarantined <> j.wanted;

-- name: screened
-- What was screened of these flagged entries.
select e.id, a.name as asset_name, e.title, e.content, e.tags, e.metadata
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) and e.metadata ? 'flags';

-- name: written
-- The fields of these entries and of their former versions that can have been released.
select e.id, a.name as asset_name, e.title, e.content, e.tags, e.metadata
  from entries e left join assets a on a.tenant_id = :tenant_id and a.id = e.asset_id
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[])
union all
select f.id, null, f.title, f.content, f.tags, f.metadata
  from former_entries f where f.tenant_id = :tenant_id and f.id = any (:ids::uuid[]);

-- name: released
select text_hash, flags from released_texts where tenant_id = :tenant_id and text_hash = any (:hashes::bytea[]);

-- name: forget_releases
delete from released_texts where tenant_id = :tenant_id and text_hash = any (:hashes::bytea[]);

-- name: add_flags
update entries e
   set metadata = e.metadata || jsonb_build_object('flags', (
         select jsonb_agg(k.flag order by k.place) from unnest(:known::text[]) with ordinality k (flag, place)
          where k.flag = any (:flags::text[]) or coalesce(e.metadata -> 'flags', '[]') ? k.flag))
 where e.tenant_id = :tenant_id and e.asset_id = :asset_id
   and not coalesce(e.metadata -> 'flags', '[]') @> to_jsonb(:flags::text[]);

-- name: chunks_with
-- The chunks of an asset with one of these flags.
select e.id, null as asset_name, e.title, e.content, e.tags, e.metadata
  from entries e where e.tenant_id = :tenant_id and e.asset_id = :asset_id and e.metadata -> 'flags' ?| :flags::text[];

-- name: set_flags
update entries e
   set metadata = case when f.flags = '[]' then e.metadata - 'flags'
                       else e.metadata || jsonb_build_object('flags', f.flags) end
  from unnest(:ids::uuid[], :flags::jsonb[]) f (id, flags)
 where e.tenant_id = :tenant_id and e.id = f.id;

-- name: flagged_chunks
select e.id from entries e where e.tenant_id = :tenant_id and e.asset_id = :asset_id and e.metadata ? 'flags';

-- name: count_flags
-- What an asset tells of its chunks.
update assets a
   set flags = (select jsonb_object_agg(c.flag, c.chunks)
                  from (select f.flag, count(*) as chunks
                          from entries e cross join lateral jsonb_array_elements_text(e.metadata -> 'flags') f (flag)
                         where e.tenant_id = :tenant_id and e.asset_id = :asset_id and e.metadata ? 'flags'
                         group by 1) c)
 where a.tenant_id = :tenant_id and a.id = :asset_id;

-- name: list
select e.created_at as key, e.id, octet_length(e.content) + octet_length(e.metadata::text) as bytes
  from entries e
 where e.tenant_id = :tenant_id and e.quarantined and (:asset_id::uuid is null or e.asset_id = :asset_id)
   and (:after_id::uuid is null or (e.created_at, e.id) < (:after_key, :after_id))
 order by e.created_at desc, e.id desc limit :limit;

-- name: is_held
select exists (select from entries where tenant_id = :tenant_id and asset_id = :asset_id and quarantined);

-- name: choose
-- The quarantined entries among these, or of these assets, and as not named all others with the same content.
with named as materialized (
  select e.id, e.content_hash from entries e
   where e.tenant_id = :tenant_id and e.quarantined
     and (e.id = any (:ids::uuid[]) or e.asset_id = any (:asset_ids::uuid[]))
)
select e.id, exists (select from named n where n.id = e.id) as named from entries e
 where e.tenant_id = :tenant_id and e.quarantined and e.content_hash in (select content_hash from named)
 order by e.id for update of e;

-- name: note_releases
insert into released_texts as r (tenant_id, text_hash, flags)
select :tenant_id, n.text_hash, array(select jsonb_array_elements_text(n.flags))
  from unnest(:hashes::bytea[], :flags::jsonb[]) n (text_hash, flags) order by n.text_hash
on conflict (tenant_id, text_hash) do update
   set flags = array(select distinct f from unnest(r.flags || excluded.flags) f order by f), released_at = clock_timestamp();

-- name: release
update entries e set quarantined = false, version = e.version + 1
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);
