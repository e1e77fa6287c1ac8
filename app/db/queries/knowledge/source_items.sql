-- The items that each source listed last.

-- name: list
select i.external_id, i.name, i.digest, i.asset_id,
       case when i.problem is not null then 'refused'
            when i.stored_digest is distinct from i.digest then 'missing'
            when a.status in ('pending', 'processing') then 'pending' else a.status end as state,
       coalesce(i.problem, case when i.stored_digest = i.digest then a.error end) as reason
  from source_items i left join assets a on a.tenant_id = :tenant_id and a.id = i.asset_id
 where i.tenant_id = :tenant_id and i.source = :source
   and (:after::text is null or i.external_id > :after)
   and case :state::text
         when 'missing' then not i.settled and i.stored_digest is distinct from i.digest
         when 'refused' then i.problem is not null
         when 'pending' then i.stored_digest = i.digest and a.status in ('pending', 'processing')
         when 'indexed' then i.stored_digest = i.digest and a.status = 'indexed'
         when 'failed' then i.stored_digest = i.digest and a.status = 'failed'
         else true end
 order by i.external_id limit :limit;

-- name: set_item_readers
update source_items i set readers = r.readers
  from jsonb_to_recordset(:rows::jsonb) r (external_id text, readers text[])
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = r.external_id
   and i.readers is distinct from r.readers;

-- name: pass_on_access
update assets a
   set readers = coalesce(i.readers, s.readers), writers = s.writers, version = a.version + 1, updated_at = clock_timestamp()
  from sources s join source_items i on i.tenant_id = :tenant_id and i.source = s.name
 where s.tenant_id = :tenant_id and s.name = :source and a.tenant_id = :tenant_id and a.id = i.asset_id
   and (a.readers, a.writers) is distinct from (coalesce(i.readers, s.readers), s.writers);

-- name: stored
select i.external_id, i.digest, i.name, i.asset_id, i.stored_digest, i.problem,
       coalesce(a.status = 'failed', false) as failed
  from source_items i left join assets a on a.tenant_id = :tenant_id and a.id = i.asset_id
 where i.tenant_id = :tenant_id and i.source = :source order by i.external_id;

-- name: adopt
-- Assets of the source without an item, as an import that was interrupted leaves them.
insert into source_items (tenant_id, source, external_id, digest, name, asset_id)
select :tenant_id, :source, a.external_id, 'unknown', a.name, a.id from assets a
 where a.tenant_id = :tenant_id and a.source = :source
   and not exists (select from source_items i where i.tenant_id = :tenant_id and i.asset_id = a.id)
on conflict do nothing;

-- name: delete
delete from source_items
 where tenant_id = :tenant_id and source = :source and external_id = any (:external_ids::text[]);

-- name: change
-- `again`: the bytes must be uploaded again, although the digest is the same.
update source_items i
   set external_id = u.new_id, digest = u.digest, name = u.name, problem = null, settled = false,
       stored_digest = case when u.again then null else i.stored_digest end
  from unnest(:old_ids::text[], :new_ids::text[], :digests::text[], :names::text[], :again::boolean[])
         u (old_id, new_id, digest, name, again)
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = u.old_id;

-- name: add
insert into source_items (tenant_id, source, external_id, digest, name, problem, settled)
select :tenant_id, :source, u.external_id, u.digest, u.name, u.problem, u.problem is not null
  from unnest(:external_ids::text[], :digests::text[], :names::text[], :problems::text[])
         u (external_id, digest, name, problem);

-- name: settle_items
update source_items i set settled = true
  from assets a
 where i.tenant_id = :tenant_id and i.source = :source and not i.settled and i.stored_digest = i.digest
   and a.tenant_id = :tenant_id and a.id = i.asset_id and a.status in ('indexed', 'failed');

-- name: settle_item
-- In the transaction that ends the ingestion of the asset.
update source_items set settled = true
 where tenant_id = :tenant_id and asset_id = :asset_id and stored_digest = digest and not settled;

-- name: fetch
select i.digest, i.name, i.asset_id, i.stored_digest, coalesce(i.readers, s.readers) as readers, s.writers
  from source_items i join sources s on s.tenant_id = :tenant_id and s.name = i.source
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = :external_id;

-- name: store
update source_items i
   set asset_id = :asset_id, stored_digest = digest, problem = null,
       settled = exists (select from assets a where a.tenant_id = :tenant_id and a.id = :asset_id
                            and a.status in ('indexed', 'failed'))
 where i.tenant_id = :tenant_id and i.source = :source and i.external_id = :external_id;

-- name: refuse
insert into source_items (tenant_id, source, external_id, digest, name, problem, settled, readers)
values (:tenant_id, :source, :external_id, :digest, :name, :problem, true,
        (select nullif(:readers::text[], s.readers) from sources s where s.tenant_id = :tenant_id and s.name = :source))
on conflict (tenant_id, source, external_id) do update set problem = excluded.problem, settled = true;
