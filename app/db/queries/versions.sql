-- Former versions of entries.

-- name: keep
-- Called in the transaction that changes the setting from :former days to :days; 0 keeps no versions. What was kept for a
-- shorter time until now is not there, and neither is what changed while none were kept.
with ended as (
  delete from kept_versions where tenant_id = :tenant_id and :days::integer = 0
)
insert into kept_versions as k (tenant_id, since)
select :tenant_id, clock_timestamp() where :days::integer > 0
on conflict (tenant_id) do update
   set since = greatest(k.since, clock_timestamp() - make_interval(days => least(:former::integer, :days::integer)));

-- name: earliest
-- The earliest time of which all versions are kept; null if none are.
select greatest(k.since, clock_timestamp() - make_interval(days => (t.settings ->> 'keep_versions_days')::integer))
  from kept_versions k join tenants t on t.id = k.tenant_id
 where k.tenant_id = :tenant_id;

-- name: list
-- The versions of an entry, or of the chunks of an asset, that follow those that ended at :after_key (null: from the start), the
-- newest first. The page ends after the version with which it has :most_bytes; `found` counts those of the whole page, and
-- the first of the next. Those in quarantine, or to which one of today reaches back, only with :include_quarantined.
select {former}, found
  from (
    select v.*, count(*) over () as found, row_number() over newest as place,
           sum(octet_length(v.content) + octet_length(v.metadata::text)) over newest
             - octet_length(v.content) - octet_length(v.metadata::text) as preceding
      from (select *
              from (select * from former_entries where tenant_id = :tenant_id and id = :id
                    union all
                    select * from former_entries where tenant_id = :tenant_id and asset_id = :asset_id) o
             where not absent and (:include_quarantined or not (quarantined or withheld))
               and (:after_key::timestamptz is null or (valid_until, id) < (:after_key, :after_id::uuid))
             order by valid_until desc, id desc limit :limit + 1) v
    window newest as (order by v.valid_until desc, v.id desc)) page
 where preceding < :most_bytes and place <= :limit
 order by valid_until desc, id desc;

-- name: is_known
select exists (select from entries where tenant_id = :tenant_id and id = :id)
    or exists (select from former_entries where tenant_id = :tenant_id and id = :id and not absent)
    or exists (select from assets where tenant_id = :tenant_id and id = :asset_id)
    or exists (select from former_entries where tenant_id = :tenant_id and asset_id = :asset_id and not absent);

-- name: prune
-- Removes versions that ended before the period that the tenant has set, and the oldest over :most; :batch at a time. Vectors
-- of a text stay while a later version has it. Then only times after what was removed can be answered.
with gone as (
  delete from former_entries f
   using (select o.id, o.valid_until from former_entries o where o.tenant_id = :tenant_id
           order by o.valid_until
           limit least(:batch::bigint, greatest(
             (select count(*) from former_entries c
               where c.tenant_id = :tenant_id
                 and c.valid_until < clock_timestamp() - make_interval(days => coalesce((
                       select (t.settings ->> 'keep_versions_days')::integer from tenants t where t.id = :tenant_id), 0))),
             (select count(*) from former_entries c where c.tenant_id = :tenant_id) - :most::bigint))) o
   where f.tenant_id = :tenant_id and f.id = o.id and f.valid_until = o.valid_until
  returning f.id, f.text_hash, f.valid_until
), vectors as (
  delete from former_embeddings k
   using gone g
   where k.tenant_id = :tenant_id and k.entry_id = g.id and k.text_hash = g.text_hash
     and not exists (select from former_entries f
                      where f.tenant_id = :tenant_id and f.id = g.id and f.text_hash = g.text_hash
                        and f.valid_until > g.valid_until)
), earliest as (
  update kept_versions k set since = greatest(k.since, (select max(valid_until) from gone))
   where k.tenant_id = :tenant_id and exists (select from gone)
)
select count(*) from gone;

-- name: erase
-- The former versions of entries, and of the chunks of assets. To be called after the entries are deleted, since their
-- deletion keeps a last version. Returns the ids.
with gone as (
  delete from former_entries f
   where f.tenant_id = :tenant_id and (f.id = any (:ids::uuid[]) or f.asset_id = any (:asset_ids::uuid[]))
  returning f.id
), vectors as (
  delete from former_embeddings k using (select distinct id from gone) g
   where k.tenant_id = :tenant_id and k.entry_id = g.id
)
select id, count(*) as versions from gone group by id;
