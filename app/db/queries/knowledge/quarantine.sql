-- Entries that are hidden from searches because of their flags, until an admin releases them.

-- name: policy
select coalesce(settings ->> 'suspicious_content', 'flag') from tenants where id = :tenant_id;

-- name: apply
-- Quarantines the flagged entries among these, except those whose text was released with these flags, and ends the
-- quarantine of the others.
with judged as (
  select e.id, :quarantines::boolean and e.metadata ? 'flags'
               and not exists (
                 select from released_texts r
                  where r.tenant_id = :tenant_id and r.text_hash = e.text_hash
                    and to_jsonb(r.flags) @> (e.metadata -> 'flags')) as wanted
    from entries e where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]) order by e.id for update of e
)
update entries e set quarantined = j.wanted
  from judged j where e.tenant_id = :tenant_id and e.id = j.id and e.quarantined <> j.wanted;

-- name: add_flags
-- Adds flags to the chunks of an asset; returns those that did not have them all.
update entries e
   set metadata = e.metadata || jsonb_build_object('flags', (
         select jsonb_agg(k.flag order by k.place) from unnest(:known::text[]) with ordinality k (flag, place)
          where k.flag = any (:flags::text[]) or coalesce(e.metadata -> 'flags', '[]') ? k.flag))
 where e.tenant_id = :tenant_id and e.asset_id = :asset_id
   and not coalesce(e.metadata -> 'flags', '[]') @> to_jsonb(:flags::text[])
returning e.id;

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

-- name: choose
-- The quarantined entries among these, or of these assets, and all others with the same text and no other flag.
with chosen as materialized (
  select e.text_hash, e.metadata -> 'flags' as flags from entries e
   where e.tenant_id = :tenant_id and e.quarantined
     and (e.id = any (:ids::uuid[]) or e.asset_id = any (:asset_ids::uuid[]))
)
select e.id from entries e
 where e.tenant_id = :tenant_id and e.quarantined
   and exists (select from chosen c where c.text_hash = e.text_hash and c.flags @> (e.metadata -> 'flags'))
 order by e.id for update;

-- name: note_release
-- The text is not quarantined again for the flags that it has now.
insert into released_texts as r (tenant_id, text_hash, flags)
select :tenant_id, e.text_hash, array_agg(distinct f.flag order by f.flag)
  from entries e cross join lateral jsonb_array_elements_text(e.metadata -> 'flags') f (flag)
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[])
 group by e.text_hash order by e.text_hash
on conflict (tenant_id, text_hash) do update
   set flags = array(select distinct f from unnest(r.flags || excluded.flags) f order by f), released_at = clock_timestamp();

-- name: release
update entries e set quarantined = false, version = e.version + 1
 where e.tenant_id = :tenant_id and e.id = any (:ids::uuid[]);
